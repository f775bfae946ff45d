"""The operators whose results are known where their arguments are; docs/values.md lists them for users."""

from __future__ import annotations


def _names(text: str) -> list[str]:
    return text.split()


# Operators that make new tensors. They are computed on the host where all arguments are known and small.
COMPUTED = _names(
    """
    add.Tensor sub.Tensor mul.Tensor div.Tensor div.Tensor_mode remainder.Tensor remainder.Scalar floor_divide
    neg abs sign clamp minimum maximum
    eq.Tensor eq.Scalar ne.Tensor ne.Scalar lt.Tensor lt.Scalar le.Tensor le.Scalar gt.Tensor gt.Scalar
    ge.Tensor ge.Scalar isin.Tensor_Tensor isin.Tensor_Scalar
    bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor bitwise_not logical_and logical_or logical_xor logical_not
    where.self masked_fill.Scalar tril triu flip roll
    all all.dim any any.dim sum sum.dim_IntList mean prod cumsum max max.dim min min.dim amax amin argmax argmin
    sort sort.stable topk
    cat index.Tensor index_select gather scatter.value
    scatter.src scatter_add index_add index_copy index_put masked_scatter histc
    """
)
# Operators that change their first argument, and are computed alike.
CHANGING = _names(
    """
    fill_.Scalar fill_.Tensor zero_ add_.Tensor sub_.Tensor mul_.Tensor bitwise_and_.Tensor bitwise_or_.Tensor
    logical_and_ logical_or_ masked_fill_.Scalar scatter_.value index_fill_.int_Scalar _amp_update_scale_
    copy_ scatter_.src scatter_add_ index_add_ index_copy_ index_put_
    """
)
# Others that change their first argument, whose result is not known: they drop what was known of a tensor of inference
# mode. Every other tensor has a version, which they raise.
DROPPING = _names(
    """
    normal_ uniform_ random_ random_.from random_.to bernoulli_.float exponential_
    div_.Tensor clamp_ pow_.Scalar exp_ sqrt_ relu_ addcmul_ addcdiv_
    """
)
# Operators whose element depends on the elements at its place only, or that reduce equal elements to one of them: where
# every argument has equal elements, one element has the result.
UNIFORM = frozenset(
    _names(
        """
        eq ne lt le gt ge add sub mul neg abs sign clamp minimum maximum where masked_fill isin
        bitwise_and bitwise_or bitwise_xor bitwise_not logical_and logical_or logical_xor logical_not
        all any max min amax amin index index_select cat
        fill_ zero_ add_ sub_ mul_ bitwise_and_ bitwise_or_ logical_and_ logical_or_ masked_fill_
        """
    )
)
# Operators whose results are indices along a dimension: these are drawn where the arguments are not known.
DRAWN = ["argmax", "argmin", "topk", "sort", "sort.stable", "max.dim", "min.dim", "multinomial"]
# Operators whose result has a size that depends on values. Indexing by a mask uses the first.
SIZED = _names("nonzero bincount _unique2 unique_dim unique_consecutive repeat_interleave.Tensor _coalesce")
# Factorisations, whose last result is 0 for each matrix: they succeed.
FACTORED = _names(
    "linalg_cholesky_ex linalg_inv_ex linalg_lu_factor_ex linalg_ldl_factor_ex _linalg_solve_ex linalg_solve_ex"
)
# Those that backward passes call too: the backward of indexing by a mask needs the size of its forward.
SIZED_ALWAYS = ["nonzero"]
