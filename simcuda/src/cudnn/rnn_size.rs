//! The memory of recurrent layers: weights, reserve space and workspace.
//!
//! cuDNN computes these sizes for a handle only. The formulas are fitted to its answers (9.5.1, 9.19.0 and 9.26.0 give
//! the same). Weights are exact and reserve space is within 96 bytes. The workspace, which a call gives back, is a
//! model: README.md has its errors.

/// `cudnnRNNMode_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cell {
    /// ReLU or tanh.
    #[default]
    Plain,
    Lstm,
    Gru,
}

impl Cell {
    /// Matrices for the input of a layer, and as many for its state.
    pub(super) const fn gates(self) -> usize {
        match self {
            Self::Plain => 1,
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    /// The one of three values that is this cell's: plain, LSTM, GRU.
    fn of(self, [plain, lstm, gru]: [usize; 3]) -> usize {
        match self {
            Self::Plain => plain,
            Self::Lstm => lstm,
            Self::Gru => gru,
        }
    }
}

/// A stack of recurrent layers (`cudnnRNNDescriptor_t`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stack {
    pub(super) cell: Cell,
    /// `cudnnDataType_t`, and the size of an element of it.
    pub(super) kind: i32,
    pub(super) element_bytes: usize,
    /// Biases of each gate.
    pub(super) biases: usize,
    /// 1, or 2 for a bidirectional stack.
    pub(super) directions: usize,
    pub(super) layers: usize,
    pub(super) input: usize,
    pub(super) hidden: usize,
    /// The size of the output and of the recurrent state: `hidden` without a projection.
    pub(super) output: usize,
    pub(super) has_dropout: bool,
    /// Whether sequences of different lengths are padded to the longest.
    pub(super) is_padded: bool,
    /// Whether a persistent kernel keeps the weights of a layer on the chip.
    pub(super) is_persistent: bool,
}

/// A batch of sequences (`cudnnRNNDataDescriptor_t`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sequences {
    pub(super) times: usize,
    pub(super) batch: usize,
}

/// A matrix of the weights: where it starts, in elements, its rows and its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Matrix {
    pub(super) start: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Stack {
    fn has_projection(&self) -> bool {
        self.output != self.hidden
    }

    /// Layers of one direction each.
    fn pseudo_layers(&self) -> usize {
        self.layers * self.directions
    }

    /// Columns of the input matrices of a layer of one direction.
    fn columns(&self, pseudo_layer: usize) -> usize {
        if pseudo_layer < self.directions { self.input } else { self.directions * self.output }
    }

    /// Elements of the matrices of a layer of one direction.
    fn matrix_elements(&self, pseudo_layer: usize) -> usize {
        let gates = self.cell.gates() * self.hidden;
        let projection = if self.has_projection() { self.hidden * self.output } else { 0 };
        gates * (self.columns(pseudo_layer) + self.output) + projection
    }

    /// Elements of all matrices, which come before all biases.
    fn all_matrix_elements(&self) -> usize {
        (0..self.pseudo_layers()).map(|layer| self.matrix_elements(layer)).sum()
    }

    /// Elements of the biases of a layer of one direction.
    fn bias_elements(&self) -> usize {
        self.biases * self.cell.gates() * self.hidden
    }

    /// `cudnnGetRNNWeightSpaceSize`.
    pub(super) fn weight_bytes(&self) -> usize {
        let biases = self.pseudo_layers() * self.bias_elements();
        (self.all_matrix_elements() + biases) * self.element_bytes
    }

    /// A matrix of `cudnnGetRNNWeightParams`: those of the input, those of the state, the projection.
    pub(super) fn matrix(&self, pseudo_layer: usize, number: usize) -> Option<Matrix> {
        let (gates, columns) = (self.cell.gates(), self.columns(pseudo_layer));
        let first: usize = (0..pseudo_layer).map(|layer| self.matrix_elements(layer)).sum();
        let state = first + gates * self.hidden * columns;
        let (rows, output) = (self.hidden, self.output);
        let found = if pseudo_layer >= self.pseudo_layers() {
            return None;
        } else if number < gates {
            Matrix { start: first + number * rows * columns, rows, columns }
        } else if number < 2 * gates {
            Matrix { start: state + (number - gates) * rows * output, rows, columns: output }
        } else if number == 2 * gates && self.has_projection() {
            Matrix { start: state + gates * rows * output, rows: output, columns: rows }
        } else {
            return None;
        };
        Some(found)
    }

    /// A bias of `cudnnGetRNNWeightParams`.
    pub(super) fn bias(&self, pseudo_layer: usize, number: usize) -> Option<Matrix> {
        let is_there =
            pseudo_layer < self.pseudo_layers() && number < self.biases * self.cell.gates();
        let start =
            self.all_matrix_elements() + pseudo_layer * self.bias_elements() + number * self.hidden;
        is_there.then_some(Matrix { start, rows: self.hidden, columns: 1 })
    }

    /// What a training step keeps from the forward to the backward pass: gates and states of each layer, and the
    /// outputs between layers.
    pub(super) fn reserve_bytes(&self, sequences: Sequences) -> usize {
        let Sequences { times, batch } = sequences;
        let (layers, state) = (self.pseudo_layers(), times * batch * self.hidden);
        let part = |elements: usize| (elements * self.element_bytes).next_multiple_of(32);
        let kept = match self.cell {
            Cell::Plain => layers * part(state),
            Cell::Lstm => layers * (part(4 * state) + part(state)),
            Cell::Gru => part(6 * layers * state),
        };
        let projected = if self.has_projection() {
            layers * (part(state) + part(times * batch * self.output))
        } else {
            0
        };
        // A bit for each input of a layer, for each of its directions.
        let outputs = self.directions * state;
        let mask = if self.has_dropout { outputs.div_ceil(8).next_multiple_of(32) } else { 0 };
        let between = (self.layers - 1) * (part(outputs) + self.directions * mask);
        kept + projected + between + 256
    }

    /// The workspace of a pass on a GPU of this compute capability: what the larger of the passes needs.
    pub(super) fn workspace_bytes(&self, sequences: Sequences, major: u32) -> usize {
        /// The workspace of a matrix product on a stream.
        const PRODUCT_BYTES: usize = 8 << 20;
        let Sequences { times, batch } = sequences;
        let (layers, is_double) = (self.layers, self.directions == 2);
        // Layers of one direction run without such streams on Ampere and Ada.
        let products = match (is_double, layers) {
            (true, _) => 2 * layers,
            (false, 2..) if major == 8 => 0,
            (false, _) => layers,
        };
        // In units of an element for each sequence and row of the state.
        let inputs = times * self.input.max(self.hidden) / self.hidden;
        let forward = if is_double {
            let outputs = if layers == 1 { 2 * times } else { 4 * times };
            4 * inputs + outputs + self.cell.of([6, 10, 6]) * layers
        } else {
            // Several layers advance together, a few steps at a time.
            let outputs = if layers == 1 { times } else { times.min(8 + 4 * layers) };
            inputs + outputs + self.cell.of([1, 3, 1]) * layers
        };
        let persistent = match (self.is_persistent, is_double) {
            (false, _) => 0,
            (true, false) => {
                self.cell.of([11, 19, 16]) * times + inputs + self.cell.of([2, 4, 2]) * layers
            }
            (true, true) => {
                self.cell.of([13, 24, 18]) * times + 4 * inputs + self.cell.of([6, 10, 6]) * layers
            }
        };
        let gates = self.cell.gates();
        let backward = if is_double {
            (2 * gates + 4) * times + self.cell.of([6, 16, 10]) * layers
        } else {
            let dropped = if self.has_dropout { times } else { 0 };
            gates * times + self.cell.of([1, 6, 3]) * layers + dropped
        };
        let rows = batch * self.hidden;
        // Inputs and outputs without their padding, twice on the way forward; and the states at both ends.
        let states = self.cell.of([2, 4, 2]) * self.pseudo_layers() * rows;
        let unpadded = times * batch * (self.input + self.directions * self.output) + states;
        let unpadded = if self.is_padded { unpadded } else { 0 };
        let passes =
            (forward.max(persistent) * rows + 2 * unpadded).max(backward * rows + unpadded);
        let elements = self.all_matrix_elements() + passes;
        products * PRODUCT_BYTES + elements * self.element_bytes + 8 * batch + 256
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEQUENCES: Sequences = Sequences { times: 7, batch: 4 };
    const STACK: Stack = Stack {
        cell: Cell::Lstm,
        kind: 0,
        element_bytes: 4,
        biases: 2,
        directions: 1,
        layers: 1,
        input: 32,
        hidden: 64,
        output: 64,
        has_dropout: false,
        is_padded: false,
        is_persistent: false,
    };

    /// A stack, and the weights, the workspace and the reserve space by cuDNN 9.19.0 for an A100.
    fn answers() -> [(Stack, usize, usize, usize); 10] {
        let gru = Stack { cell: Cell::Gru, ..STACK };
        let plain = Stack { cell: Cell::Plain, ..STACK };
        let two = |stack| Stack { layers: 2, ..stack };
        let both = |stack| Stack { directions: 2, ..stack };
        [
            (STACK, 100_352, 8_521_984, 36_096),
            (two(STACK), 233_472, 270_592, 79_104),
            (both(two(STACK)), 598_016, 34_263_296, 157_952),
            (Stack { element_bytes: 2, ..STACK }, 50_176, 8_455_424, 18_176),
            (plain, 25_088, 8_428_800, 7_424),
            (both(plain), 50_176, 16_875_776, 14_592),
            (gru, 75_264, 8_487_168, 43_264),
            (both(two(gru)), 448_512, 34_089_216, 186_624),
            (Stack { has_dropout: true, ..two(STACK) }, 233_472, 277_760, 79_328),
            (Stack { is_padded: true, ..two(STACK) }, 233_472, 289_568, 79_104),
        ]
    }

    #[test]
    fn weights_and_reserve_space_are_cudnns() {
        for (stack, weights, _, reserve) in answers() {
            assert_eq!(stack.weight_bytes(), weights, "{stack:?}");
            assert_eq!(stack.reserve_bytes(SEQUENCES), reserve, "{stack:?}");
        }
    }

    #[test]
    fn workspaces_are_within_one_percent_of_cudnns() {
        for (stack, _, workspace, _) in answers() {
            let found = stack.workspace_bytes(SEQUENCES, 8);
            assert!(
                found.abs_diff(workspace) * 100 <= workspace,
                "{stack:?}: {found}, {workspace}"
            );
        }
        assert_eq!(
            Stack { layers: 2, ..STACK }.workspace_bytes(SEQUENCES, 9)
                - Stack { layers: 2, ..STACK }.workspace_bytes(SEQUENCES, 8),
            16 << 20
        );
    }

    #[test]
    fn projections_add_a_matrix_and_keep_more() {
        let stack = Stack { layers: 2, output: 16, ..STACK };
        assert_eq!((stack.weight_bytes(), stack.reserve_bytes(SEQUENCES)), (94_208, 97_024));
        let matrix = stack.matrix(0, 8);
        assert_eq!(matrix, Some(Matrix { start: 12_288, rows: 16, columns: 64 }));
        assert_eq!(stack.matrix(0, 9), None);
    }

    #[test]
    fn matrices_come_before_biases() {
        let stack = Stack {
            cell: Cell::Gru,
            input: 2,
            hidden: 4,
            output: 4,
            layers: 2,
            directions: 2,
            ..STACK
        };
        let start = |found: Option<Matrix>| found.map(|matrix| matrix.start * 4);
        assert_eq!(stack.weight_bytes(), 2112);
        assert_eq!(start(stack.matrix(0, 3)), Some(96));
        assert_eq!(start(stack.matrix(3, 5)), Some(1664));
        assert_eq!(start(stack.bias(0, 0)), Some(1728));
        assert_eq!(start(stack.bias(3, 5)), Some(2096));
        assert_eq!(stack.bias(4, 0), None);
    }
}
