//! An execution in the making: which events the threads have come to, what each
//! read has read, and the order of the writes to each location.
//!
//! Threads are run ahead as far as what is known allows ("fetched"); an event is
//! "done" when its value and, of a write, its place in the coherence order is
//! chosen. Under C11's model a thread waits for each of its events; under ARMv8's it
//! goes on until it needs the value, as a processor does.
//!
//! SPDX-License-Identifier: MIT
use crate::expr::{BinOp, Expr, Node};
use crate::program::{Op, Order, Program, Update, from_here_on};
use std::rc::Rc;

/// A set of events, a bit each.
pub type Set = u128;
pub const MAX_EVENTS: usize = 128;
pub const NONE: u8 = u8::MAX;
/// The thread that wrote the initial values, before all others began.
pub const INITIAL: u8 = u8::MAX;

pub fn bit(event: u8) -> Set {
    1 << event
}

/// The members of a set, lowest first.
pub fn members(mut set: Set) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let next = set.trailing_zeros();
        (set != 0).then(|| {
            set &= set - 1;
            next as u8
        })
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Model {
    /// C11 as repaired in RC11.
    C11,
    /// ARMv8. `lse`: read-modify-writes are single instructions, not pairs of
    /// exclusives. `rcpc`: acquire loads are LDAPR, not LDAR.
    Arm { lse: bool, rcpc: bool },
}

impl Model {
    /// Of all ways in which compilers make ARMv8 code, the one that orders least.
    pub const ARM_WEAKEST: Model = Model::Arm { lse: false, rcpc: true };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Read,
    Write,
    Fence,
}

#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub thread: u8,
    pub kind: Kind,
    pub order: Order,
    pub site: u16,
    pub done: bool,
    /// Of a read: which bits it looks at, and which value of them it waits for.
    pub awaits: Option<(i64, i64)>,
    /// Of a compare-and-swap's read: what it compares with, a value's number or 0,
    /// and whether only executions count in which they are equal.
    pub compares_with: u16,
    pub sure: bool,
    /// The location; for a computed address, known when the index is.
    pub loc: u8,
    pub value: i64,
    /// First location, number of them, index; and of a write, its value.
    pub place: (u8, u8, u16),
    pub operand: u16,
    /// Of a read: the write that it reads from.
    pub from: u8,
    /// The other half of a read-modify-write.
    pub partner: u8,
    /// Of a write: it is done after its partner. (An exchange's write does not need what
    /// its read reads, and on ARMv8 a later load of the thread may read it before.)
    pub after_partner: bool,
    /// Of a read: writes that it shall not read from, as others explore that.
    pub deferred: Set,
    /// Reads that the address, the value, the existence depend on (ARMv8).
    pub addr: Set,
    pub data: Set,
    pub ctrl: Set,
    /// What is ordered before it in its own thread by fences, orders, dependencies (ARMv8).
    pub lob: Set,
    /// What happens before it (C11), and what happens before whoever acquires it.
    pub hb: Set,
    pub sync: Set,
}

impl Event {
    pub fn is_read(&self) -> bool {
        self.kind == Kind::Read
    }
    /// Whether a read may end with this value: it does not wait for another.
    pub fn takes(&self, value: i64) -> bool {
        self.awaits.is_none_or(|(mask, wanted)| value & mask == wanted)
    }
}

#[derive(Clone, Copy)]
pub enum Value {
    Const(i64),
    Read(u8),
    Bin(BinOp, u16, u16),
    Updated(Update, u16, u16),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Running,
    Choosing,
    Impossible,
    /// At the bound of a loop.
    Cut,
    Ended,
}

#[derive(Clone)]
pub struct ThreadState {
    pub pc: usize,
    pub registers: Vec<u16>,
    pub status: Status,
    pub mine: Set,
    /// The event that the thread cannot go on without; NONE if there is none.
    pub waits_for: u8,
    /// The read half of an operation that has not come to its end.
    pub half: u8,
    pub ctrl: Set,
    pub addresses: Set,
    pub acquiring: Set,
    pub releasing: Set,
    pub before_fence: Set,
    pub before_load_fence: Set,
    pub before_full_rmw: Set,
    pub hb: Set,
    pub unacquired: Set,
    pub fence_sync: Set,
}

#[derive(Clone)]
pub struct Graph<'a> {
    pub program: &'a Program,
    pub model: Model,
    pub events: Vec<Event>,
    pub threads: Vec<ThreadState>,
    pub coherence: Vec<Vec<u8>>,
    pub asserts: Vec<(u16, &'static str)>,
    /// For each thread and operation, the locations that it may load without acquiring
    /// from there on.
    pub may_load: Rc<Vec<Vec<Set>>>,
    pub values: Vec<(Value, Set)>,
}

/// The locations that an operation may load without acquiring.
fn loaded_by(op: &Op) -> Set {
    match op {
        Op::Load { place, order, .. }
        | Op::Await { place, order, .. }
        | Op::Rmw { place, order, .. }
        | Op::Cas { place, order, .. }
        | Op::AwaitCas { place, order, .. }
            if !order.acquires() =>
        {
            place.locations()
        }
        _ => 0,
    }
}

impl<'a> Graph<'a> {
    pub fn new(program: &'a Program, model: Model) -> Graph<'a> {
        let mut graph = Graph {
            program,
            model,
            events: vec![],
            threads: vec![],
            coherence: vec![],
            asserts: vec![],
            may_load: Rc::new(program.threads.iter().map(|code| from_here_on(code, loaded_by)).collect()),
            values: vec![(Value::Const(0), 0)],
        };
        for (loc, (_, initial)) in program.locations.iter().enumerate() {
            let event = graph.add(INITIAL, Kind::Write, Order::Relaxed, u16::MAX as usize);
            let e = &mut graph.events[event as usize];
            (e.loc, e.value, e.done) = (loc as u8, *initial, true);
            graph.coherence.push(vec![event]);
        }
        let initial = (1 << graph.events.len()) - 1;
        for _ in &program.threads {
            graph.threads.push(ThreadState {
                pc: 0,
                registers: vec![0; 64],
                status: Status::Running,
                mine: 0,
                waits_for: NONE,
                half: NONE,
                ctrl: 0,
                addresses: 0,
                acquiring: 0,
                releasing: 0,
                before_fence: 0,
                before_load_fence: 0,
                before_full_rmw: 0,
                hb: initial,
                unacquired: 0,
                fence_sync: 0,
            });
        }
        graph
    }

    // ---- Values ----------------------------------------------------------------

    pub fn value_node(&mut self, value: Value, deps: Set) -> u16 {
        self.values.push((value, deps));
        (self.values.len() - 1) as u16
    }

    pub fn evaluate(&self, node: u16) -> Option<i64> {
        match self.values[node as usize].0 {
            Value::Const(c) => Some(c),
            Value::Read(event) => {
                let e = &self.events[event as usize];
                e.done.then_some(e.value)
            }
            Value::Bin(op, a, b) => Some(op.apply(self.evaluate(a)?, self.evaluate(b)?)),
            Value::Updated(update, a, b) => Some(update.apply(self.evaluate(a)?, self.evaluate(b)?)),
        }
    }

    /// What a compare-and-swap's read is compared with, if it is one and that is known.
    pub fn compares_with(&self, event: u8) -> Option<i64> {
        let node = self.events[event as usize].compares_with;
        if node == 0 { None } else { self.evaluate(node) }
    }

    pub fn deps(&self, node: u16) -> Set {
        self.values[node as usize].1
    }

    pub fn compile(&mut self, thread: usize, expr: Expr) -> u16 {
        match expr.0 {
            Node::Const(c) => self.value_node(Value::Const(*c), 0),
            Node::Reg(number) => self.threads[thread].registers[*number],
            Node::Bin(op, a, b) => {
                let (a, b) = (self.compile(thread, *a), self.compile(thread, *b));
                let deps = self.deps(a) | self.deps(b);
                self.value_node(Value::Bin(*op, a, b), deps)
            }
        }
    }

    pub fn register(&self, thread: usize, number: usize) -> i64 {
        self.evaluate(self.threads[thread].registers[number]).unwrap_or(i64::MIN)
    }
    /// The value that stays in a location.
    pub fn memory(&self, loc: usize) -> i64 {
        self.events[*self.coherence[loc].last().expect("it has an initial value") as usize].value
    }
}
