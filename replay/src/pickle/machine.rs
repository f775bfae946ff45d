//! The pickle virtual machine, without the opcodes that make objects.

use std::cmp::Ordering;

use hashbrown::HashMap;

use super::Limits;
use super::cell::Cell;
use super::error::{PickleError, Problem};
use super::opcode::{self as op, name};
use super::text;
use super::tree::{Full, Tree};
use super::value::{Node, Value};

/// Opcodes between two looks at how much the machine holds.
const WATCH: u32 = 256;

pub(super) fn run(bytes: &[u8], limits: Limits) -> Result<Tree, PickleError> {
    let limit = limits.of_input(bytes.len());
    let mut machine = Machine {
        bytes,
        at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Memo::default(),
        tree: Tree::with_limits(limits, bytes.len()),
        limit,
    };
    let mut watch = 0;
    loop {
        let offset = machine.at as u64;
        let fail = |opcode, problem| PickleError { offset, opcode, problem };
        let Some(&byte) = bytes.get(machine.at) else {
            return Err(fail(None, Problem::Truncated));
        };
        machine.at += 1;
        let done = machine.step(byte).map_err(|problem| fail(Some(byte), problem))?;
        if done || watch == WATCH {
            watch = 0;
            machine.watch().map_err(|problem| fail(Some(byte), problem))?;
        }
        if done {
            return Ok(machine.tree);
        }
        watch += 1;
    }
}

/// Stored values by index. CPython numbers them 0, 1, 2...; anything else goes to a map, so that an index alone
/// cannot make us allocate.
#[derive(Default)]
struct Memo {
    dense: Vec<Cell>,
    sparse: HashMap<u64, Cell>,
}

impl Memo {
    fn put(&mut self, index: u64, value: Cell) {
        let len = self.dense.len() as u64;
        match index.cmp(&len) {
            Ordering::Less => self.dense[index as usize] = value,
            Ordering::Equal => self.dense.push(value),
            Ordering::Greater => drop(self.sparse.insert(index, value)),
        }
    }

    fn get(&self, index: u64) -> Result<Cell, Problem> {
        let dense = usize::try_from(index).ok().and_then(|index| self.dense.get(index));
        dense.or_else(|| self.sparse.get(&index)).copied().ok_or(Problem::NoSuchMemo(index))
    }

    fn next_index(&self) -> u64 {
        (self.dense.len() + self.sparse.len()) as u64
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: Memo,
    tree: Tree,
    /// How much all of them may hold, in units of eight bytes.
    limit: usize,
}

impl<'a> Machine<'a> {
    /// Runs one opcode; true at `STOP`.
    fn step(&mut self, byte: u8) -> Result<bool, Problem> {
        match byte {
            op::PROTO => {
                let protocol = self.array::<1>()?[0];
                if protocol > 5 {
                    return Err(Problem::UnknownProtocol(protocol));
                }
            }
            // Frames only help a reader that buffers; their length is not needed.
            op::FRAME => drop(self.array::<8>()?),
            op::STOP => {
                let root = self.pop()?;
                self.tree.set_root(root);
                return Ok(true);
            }
            op::MARK => self.marks.push(self.stack.len()),
            op::POP => {
                // CPython pops the mark when nothing lies above it.
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                } else {
                    self.pop()?;
                }
            }
            op::POP_MARK => {
                let mark = self.mark()?;
                self.stack.truncate(mark);
            }
            op::DUP => self.stack.push(self.top()?),
            op::NONE => self.stack.push(Value::None),
            op::NEWTRUE => self.stack.push(Value::Bool(true)),
            op::NEWFALSE => self.stack.push(Value::Bool(false)),
            op::BININT1 => self.uint::<1>()?,
            op::BININT2 => self.uint::<2>()?,
            op::BININT => {
                let value = i32::from_le_bytes(self.array()?);
                self.stack.push(Value::Int(value.into()));
            }
            op::LONG1 => {
                let len = self.array::<1>()?[0];
                self.long(len.into())?;
            }
            op::LONG4 => {
                let len = self.length::<4>()?;
                self.long(len)?;
            }
            op::BINFLOAT => {
                // The one big-endian field of the format.
                let value = f64::from_bits(u64::from_le_bytes(self.array()?).swap_bytes());
                self.stack.push(Value::Float(value));
            }
            op::SHORT_BINUNICODE | op::SHORT_BINSTRING => self.string::<1>()?,
            op::BINUNICODE | op::BINSTRING => self.string::<4>()?,
            op::BINUNICODE8 => self.string::<8>()?,
            op::INT | op::LONG | op::FLOAT | op::STRING | op::UNICODE => self.text_value(byte)?,
            op::EMPTY_LIST | op::EMPTY_DICT | op::EMPTY_TUPLE => {
                let mark = self.stack.len();
                self.collect(byte, mark)?;
            }
            op::LIST | op::DICT | op::TUPLE => {
                let mark = self.mark()?;
                self.collect(byte, mark)?;
            }
            op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => {
                let len = usize::from(byte - op::TUPLE1) + 1;
                let start = self.stack.len().checked_sub(len).ok_or(Problem::StackUnderflow)?;
                self.above_marks(start)?;
                self.collect(byte, start)?;
            }
            op::APPEND => self.append_from(self.stack.len().wrapping_sub(1))?,
            op::APPENDS => {
                let mark = self.mark()?;
                self.append_from(mark)?;
            }
            op::SETITEM => self.set_from(self.stack.len().wrapping_sub(2))?,
            op::SETITEMS => {
                let mark = self.mark()?;
                self.set_from(mark)?;
            }
            op::MEMOIZE => {
                let cell = self.packed_top()?;
                self.memo.put(self.memo.next_index(), cell);
            }
            op::BINPUT | op::LONG_BINPUT | op::PUT => {
                let index = self.memo_index(byte)?;
                let cell = self.packed_top()?;
                self.memo.put(index, cell);
            }
            op::BINGET | op::LONG_BINGET | op::GET => {
                let index = self.memo_index(byte)?;
                self.stack.push(self.tree.unpack(self.memo.get(index)?));
            }
            _ => return Err(self.refuse(byte)),
        }
        Ok(false)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Problem> {
        let end = self.at.checked_add(len).ok_or(Problem::Truncated)?;
        let taken = self.bytes.get(self.at..end).ok_or(Problem::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| Problem::Truncated)
    }

    /// An unsigned little-endian integer of `N` bytes that counts what follows.
    fn length<const N: usize>(&mut self) -> Result<usize, Problem> {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&self.array::<N>()?);
        usize::try_from(u64::from_le_bytes(wide)).map_err(|_| Problem::Truncated)
    }

    fn line(&mut self) -> Result<&'a [u8], Problem> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|&byte| byte == b'\n').ok_or(Problem::Truncated)?;
        self.at += len + 1;
        Ok(rest[..len].strip_suffix(b"\r").unwrap_or(&rest[..len]))
    }

    fn uint<const N: usize>(&mut self) -> Result<(), Problem> {
        let value = self.length::<N>()?;
        self.stack.push(Value::Int(value as i64));
        Ok(())
    }

    /// A little-endian two's complement integer of `len` bytes.
    fn long(&mut self, len: usize) -> Result<(), Problem> {
        let bytes = self.take(len)?;
        let negative = bytes.last().is_some_and(|top| top & 0x80 != 0);
        let fill = if negative { 0xff } else { 0 };
        let mut wide = [fill; 16];
        let kept = len.min(16);
        wide[..kept].copy_from_slice(&bytes[..kept]);
        if bytes[kept..].iter().any(|&byte| byte != fill) {
            return Err(Problem::IntegerRange);
        }
        let value = integer(i128::from_le_bytes(wide))?;
        self.stack.push(value);
        Ok(())
    }

    fn string<const N: usize>(&mut self) -> Result<(), Problem> {
        let len = self.length::<N>()?;
        let bytes = self.take(len)?;
        let text = self.tree.strings.intern(bytes);
        self.stack.push(Value::Text(text));
        Ok(())
    }

    fn text_value(&mut self, byte: u8) -> Result<(), Problem> {
        let line = self.line()?;
        let value = match (byte, line) {
            (op::INT, b"00") => Value::Bool(false),
            (op::INT, b"01") => Value::Bool(true),
            (op::FLOAT, _) => Value::Float(text::number(line, "float")?),
            (op::INT | op::LONG, _) => {
                integer(text::number(line.strip_suffix(b"L").unwrap_or(line), "integer")?)?
            }
            (op::STRING, _) => Value::Text(self.tree.strings.intern_str(&text::quoted(line)?)),
            _ => Value::Text(self.tree.strings.intern_str(&text::raw_unicode(line)?)),
        };
        self.stack.push(value);
        Ok(())
    }

    fn memo_index(&mut self, byte: u8) -> Result<u64, Problem> {
        match byte {
            op::BINPUT | op::BINGET => Ok(self.length::<1>()? as u64),
            op::LONG_BINPUT | op::LONG_BINGET => Ok(self.length::<4>()? as u64),
            _ => text::number(self.line()?, "memo index"),
        }
    }

    fn top(&self) -> Result<Value, Problem> {
        self.above_marks(self.stack.len().wrapping_sub(1))?;
        self.stack.last().copied().ok_or(Problem::StackUnderflow)
    }

    fn packed_top(&mut self) -> Result<Cell, Problem> {
        let top = self.top()?;
        Ok(self.tree.pack(top))
    }

    /// That everything together is within the limit.
    fn watch(&self) -> Result<(), Problem> {
        let memo = self.memo.dense.len() + 4 * self.memo.sparse.len();
        let used = self.tree.used() + 2 * self.stack.len() + self.marks.len() + memo;
        if used > self.limit { Err(self.full(&Full)) } else { Ok(()) }
    }

    fn pop(&mut self) -> Result<Value, Problem> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn mark(&mut self) -> Result<usize, Problem> {
        self.marks.pop().ok_or(Problem::StackUnderflow)
    }

    /// That no open mark lies above `start`: an opcode must not reach through it.
    fn above_marks(&self, start: usize) -> Result<(), Problem> {
        match self.marks.last() {
            Some(&mark) if start < mark => Err(Problem::StackUnderflow),
            _ => Ok(()),
        }
    }

    /// Makes a container of everything on the stack from `start`.
    fn collect(&mut self, byte: u8, start: usize) -> Result<(), Problem> {
        let is_dict = matches!(byte, op::DICT | op::EMPTY_DICT);
        if is_dict && !(self.stack.len() - start).is_multiple_of(2) {
            return Err(Problem::OddItems);
        }
        let node = self.tree.add_node().map_err(|full| self.full(&full))?;
        let container = match byte {
            op::LIST | op::EMPTY_LIST => Value::List(node),
            op::DICT | op::EMPTY_DICT => Value::Dict(node),
            _ => Value::Tuple(node),
        };
        self.drain_into(container, node, start)?;
        self.stack.push(container);
        Ok(())
    }

    fn append_from(&mut self, start: usize) -> Result<(), Problem> {
        match self.container(start)? {
            list @ Value::List(node) => self.drain_into(list, node, start),
            other => Err(Problem::WrongType { needs: "a list", found: other.type_name() }),
        }
    }

    fn set_from(&mut self, start: usize) -> Result<(), Problem> {
        match self.container(start)? {
            Value::Dict(_) if !(self.stack.len() - start).is_multiple_of(2) => {
                Err(Problem::OddItems)
            }
            dict @ Value::Dict(node) => self.drain_into(dict, node, start),
            other => Err(Problem::WrongType { needs: "a dict", found: other.type_name() }),
        }
    }

    /// The value just below `start`, which the values from `start` go into.
    fn container(&self, start: usize) -> Result<Value, Problem> {
        let below = start.checked_sub(1).ok_or(Problem::StackUnderflow)?;
        self.above_marks(below)?;
        self.stack.get(below).copied().ok_or(Problem::StackUnderflow)
    }

    fn drain_into(&mut self, into: Value, node: Node, start: usize) -> Result<(), Problem> {
        let values = &self.stack[start..];
        let result = match into {
            Value::Dict(_) => self.tree.extend_dict(node, values),
            _ => self.tree.extend(node, values),
        };
        self.stack.truncate(start);
        result.map_err(|full| self.full(&full))
    }

    fn full(&self, _: &Full) -> Problem {
        Problem::TooManyValues(self.limit as u64)
    }

    /// Why an opcode that is not one of ours is refused.
    fn refuse(&mut self, byte: u8) -> Problem {
        match byte {
            op::GLOBAL | op::INST => {
                let mut part =
                    || self.line().map(|line| String::from_utf8_lossy(line).into_owned());
                match (part(), part()) {
                    (Ok(module), Ok(name)) => Problem::Code(format!("{module}.{name}")),
                    (Err(problem), _) | (_, Err(problem)) => problem,
                }
            }
            op::STACK_GLOBAL => match self.stack.as_slice() {
                [.., Value::Text(module), Value::Text(name)] => {
                    Problem::Code(format!("{}.{}", self.tree.text(*module), self.tree.text(*name)))
                }
                _ => Problem::StackUnderflow,
            },
            op::REDUCE | op::BUILD | op::OBJ | op::NEWOBJ | op::NEWOBJ_EX => {
                Problem::Code("of a class".to_owned())
            }
            op::EXT1 | op::EXT2 | op::EXT4 => Problem::Code("of an extension code".to_owned()),
            op::PERSID | op::BINPERSID => Problem::Code("of a persistent id".to_owned()),
            op::BINBYTES
            | op::SHORT_BINBYTES
            | op::BINBYTES8
            | op::BYTEARRAY8
            | op::NEXT_BUFFER
            | op::READONLY_BUFFER => Problem::Unsupported("bytes and buffers"),
            op::EMPTY_SET | op::ADDITEMS | op::FROZENSET => Problem::Unsupported("sets"),
            other => {
                debug_assert!(name(other).is_none(), "known opcode without a reason");
                Problem::UnknownOpcode
            }
        }
    }
}

fn integer(value: i128) -> Result<Value, Problem> {
    if let Ok(small) = i64::try_from(value) {
        return Ok(Value::Int(small));
    }
    u64::try_from(value).map(Value::Big).map_err(|_| Problem::IntegerRange)
}
