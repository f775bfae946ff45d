//! Interns the frame lists of a pickle: by identity first, since PyTorch shares them, then by content.

use hashbrown::HashMap;
use trace_format::{Frame, FrameId, StackId, StringId};

use super::model::Stacks;
use crate::pickle::{Node, Text, Tree, Value};
use crate::snapshot::fields::Fields;

/// Not seen yet, in the tables by node.
const UNSEEN: u32 = u32::MAX;

pub(super) struct StackReader<'a> {
    tree: &'a Tree,
    keys: Fields<3>,
    out: Stacks,
    string_of_text: Vec<u32>,
    frame_of_node: Vec<u32>,
    stack_of_node: Vec<u32>,
    frame_ids: HashMap<Frame, u32>,
    stack_ids: HashMap<Box<[FrameId]>, u32>,
    scratch: Vec<FrameId>,
    named_room: usize,
}

impl<'a> StackReader<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        Self {
            tree,
            keys: Fields::new(tree, ["name", "filename", "line"]),
            out: Stacks::default(),
            string_of_text: vec![UNSEEN; tree.text_count()],
            frame_of_node: vec![UNSEEN; tree.node_count()],
            stack_of_node: vec![UNSEEN; tree.node_count()],
            frame_ids: HashMap::new(),
            stack_ids: HashMap::from([(Box::default(), 0)]),
            scratch: Vec::new(),
            named_room: tree.cell_count(),
        }
    }

    pub(super) fn finish(self) -> Stacks {
        self.out
    }

    /// The stack of a frame list; anything else is no stack.
    pub(super) fn stack(&mut self, frames: Value) -> StackId {
        let (Value::List(node) | Value::Tuple(node)) = frames else { return StackId::NONE };
        let known = self.stack_of_node[node.index()];
        if known != UNSEEN {
            return StackId(known);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let tree = self.tree;
        scratch.extend(tree.values(node).filter_map(|frame| match frame {
            Value::Dict(frame) => Some(self.frame(frame)),
            _ => None,
        }));
        let id = self.stack_id(&scratch);
        self.scratch = scratch;
        self.stack_of_node[node.index()] = id;
        StackId(id)
    }

    /// The stack of a frame list below one more frame that is only a name.
    pub(super) fn named(&mut self, name: Text, frames: Value) -> StackId {
        let below = self.stack(frames);
        let frame = Frame { name: self.text(name), ..Frame::default() };
        let name = self.frame_id(frame);
        let below = self.out.frame_ids_of(below);
        // Frames are copied here: a file with one long list and many names must not ask for any number.
        let room = self.named_room.checked_sub(below.len());
        let stack = if room.is_some() { [&[name], below].concat() } else { vec![name] };
        self.named_room = room.unwrap_or(0);
        StackId(self.stack_id(&stack))
    }

    fn stack_id(&mut self, stack: &[FrameId]) -> u32 {
        if let Some(&id) = self.stack_ids.get(stack) {
            return id;
        }
        let id = self.out.stacks.len() as u32;
        let stack: Box<[FrameId]> = stack.into();
        self.out.stacks.push(stack.clone());
        self.stack_ids.insert(stack, id);
        id
    }

    fn frame_id(&mut self, frame: Frame) -> FrameId {
        let next = self.out.frames.len() as u32;
        let id = *self.frame_ids.entry(frame).or_insert(next);
        if id == next {
            self.out.frames.push(frame);
        }
        FrameId(id)
    }

    fn frame(&mut self, node: Node) -> FrameId {
        let known = self.frame_of_node[node.index()];
        if known != UNSEEN {
            return FrameId(known);
        }
        let [name, filename, line] = self.keys.read(self.tree, node);
        let frame = Frame {
            name: self.string(name),
            filename: self.string(filename),
            line: line.as_u64().and_then(|line| u32::try_from(line).ok()).unwrap_or(0),
        };
        let id = self.frame_id(frame);
        self.frame_of_node[node.index()] = id.0;
        id
    }

    fn string(&mut self, value: Value) -> StringId {
        match value {
            Value::Text(text) => self.text(text),
            _ => StringId(0),
        }
    }

    fn text(&mut self, text: Text) -> StringId {
        let known = self.string_of_text[text.index()];
        if known != UNSEEN {
            return StringId(known);
        }
        let id = self.out.add_string(self.tree.text(text));
        self.string_of_text[text.index()] = id.0;
        id
    }
}
