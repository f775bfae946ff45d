//! The memory of recurrent layers: weights, reserve space and workspace.
//!
//! cuDNN computes these sizes for a handle only. The formulas are fitted to its answers (9.5.1, 9.19.0 and 9.26.0 give
//! the same). Weights and reserve space are exact; the workspace, which a call gives back, is a model.

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
}

/// A stack of recurrent layers (`cudnnRNNDescriptor_t`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layers {
    pub(super) cell: Cell,
    /// `cudnnDataType_t`, and the size of an element of it.
    pub(super) kind: i32,
    pub(super) element_bytes: usize,
    pub(super) has_bias: bool,
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

impl Layers {
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
        if self.has_bias { 2 * self.cell.gates() * self.hidden } else { 0 }
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
            pseudo_layer < self.pseudo_layers() && number < 2 * self.cell.gates() && self.has_bias;
        let start =
            self.all_matrix_elements() + pseudo_layer * self.bias_elements() + number * self.hidden;
        is_there.then_some(Matrix { start, rows: self.hidden, columns: 1 })
    }

    /// What a training step keeps from the forward to the backward pass: gates and states of each layer, and the
    /// outputs between layers.
    pub(super) fn reserve_bytes(&self, sequences: Sequences) -> usize {
        let Sequences { times, batch } = sequences;
        let state = times * batch * self.hidden;
        let part = |elements: usize| (elements * self.element_bytes).next_multiple_of(32);
        let kept = match self.cell {
            Cell::Plain => part(state),
            Cell::Lstm => part(4 * state) + part(state),
            Cell::Gru => 6 * part(state),
        };
        let between = self.pseudo_layers() - self.directions;
        let projected = if self.has_projection() {
            let full = self.pseudo_layers() * part(state);
            full + self.pseudo_layers() * part(times * batch * self.output)
        } else {
            0
        };
        let dropped = if self.has_dropout { (state / 8).next_multiple_of(32) } else { 0 };
        self.pseudo_layers() * kept + between * (part(state) + dropped) + projected + 256
    }

    /// The workspace of a pass on a GPU of this compute capability.
    pub(super) fn workspace_bytes(&self, sequences: Sequences, major: u32) -> usize {
        /// The workspace of a matrix product on a stream.
        const PRODUCT_BYTES: usize = 8 << 20;
        let Sequences { times, batch } = sequences;
        let (layers, two) = (self.layers, self.directions == 2);
        // Products on several streams: an Ampere GPU runs the layers of one direction without.
        let products = match (two, layers) {
            (true, _) => 2 * layers,
            (false, 2..) if major == 8 => 0,
            (false, _) => layers,
        };
        // Elements for each sequence and unit of the state.
        let gates = self.cell.gates();
        let is_lstm = self.cell == Cell::Lstm;
        let backward = match (self.cell, two) {
            (_, false) => gates * times + [1, 6, 3][self.cell as usize] * layers,
            (_, true) => (2 * gates + 4) * times + [6, 16, 10][self.cell as usize] * layers,
        };
        let states = if is_lstm { 3 } else { 1 } * layers;
        let inputs = times * self.input.max(self.hidden) / self.hidden.max(1);
        let forward = match (two, layers) {
            (false, 1) => inputs + times + states,
            // Layers advance together, a few steps at a time.
            (false, _) => inputs + times.min(8 + 4 * layers) + states,
            (true, 1) => 4 * inputs + 2 * times + states.max(1) * if is_lstm { 1 } else { 6 },
            (true, _) => 4 * inputs + 4 * times + states * if is_lstm { 1 } else { 6 },
        };
        let persistent = match (self.cell, two) {
            _ if !self.is_persistent => 0,
            (Cell::Plain, false) => 12 * times + 2 * layers,
            (Cell::Plain, true) => 17 * times + 6 * layers,
            (Cell::Lstm, false) => 20 * times + 4 * layers,
            (Cell::Lstm, true) => 28 * times + 10 * layers,
            (Cell::Gru, false) => 17 * times + 2 * layers,
            (Cell::Gru, true) => 22 * times + 6 * layers,
        };
        let passes = backward.max(forward).max(persistent) * batch * self.hidden;
        let sides = if is_lstm { 4 } else { 2 } * self.pseudo_layers() * batch * self.hidden;
        let padded = times * batch * (self.input + self.directions * self.output) + sides;
        let dropped =
            if self.has_dropout { times * batch * self.hidden * self.directions } else { 0 };
        let elements =
            self.all_matrix_elements() + passes + dropped + if self.is_padded { padded } else { 0 };
        products * PRODUCT_BYTES + elements * self.element_bytes + 8 * batch + 256
    }
}
