//! Programs under test: a few threads of loads, stores, read-modify-writes,
//! fences, branches and bounded loops over named locations, and what must hold.
//!
//! A protocol is written as a Rust function that builds one. Each access carries
//! the name of its site, a line of the allocator's source; a change (see `Change`)
//! weakens one site, everywhere it occurs.
//!
//! SPDX-License-Identifier: MIT
use crate::expr::{Expr, Node};
use crate::thread::Thread;
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Order {
    Plain,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    Seq,
}

impl Order {
    pub fn acquires(self) -> bool {
        matches!(self, Order::Acquire | Order::AcqRel | Order::Seq)
    }
    pub fn releases(self) -> bool {
        matches!(self, Order::Release | Order::AcqRel | Order::Seq)
    }
}

/// One location, or an array of them.
#[derive(Clone, Copy)]
pub struct Loc {
    pub first: usize,
    pub len: usize,
}

/// Where an access goes: the `index`-th location of an array.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub first: usize,
    pub len: usize,
    pub index: Expr,
}

impl Loc {
    pub fn at(self, index: impl Into<Expr>) -> Place {
        Place { first: self.first, len: self.len, index: index.into() }
    }
}

impl From<Loc> for Place {
    fn from(loc: Loc) -> Place {
        loc.at(0)
    }
}

impl Place {
    /// The set of locations that it may be, a bit each.
    pub fn locations(&self) -> u128 {
        ((1 << self.len) - 1) << self.first
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Update {
    Exchange,
    And,
    Or,
    Add,
}

impl Update {
    pub fn apply(self, old: i64, operand: i64) -> i64 {
        match self {
            Update::Exchange => operand,
            Update::And => old & operand,
            Update::Or => old | operand,
            Update::Add => old + operand,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Op {
    Load {
        dst: usize,
        place: Place,
        order: Order,
        site: usize,
    },
    Store {
        place: Place,
        value: Expr,
        order: Order,
        site: usize,
    },
    Rmw {
        dst: usize,
        place: Place,
        update: Update,
        operand: Expr,
        order: Order,
        site: usize,
    },
    /// `dst` becomes the old value: the exchange took place if it is `expected`.
    /// `sure`: executions in which it did not are left out.
    Cas {
        dst: usize,
        place: Place,
        expected: Expr,
        desired: Expr,
        order: Order,
        sure: bool,
        site: usize,
    },
    /// A loop of loads until the bits in `mask` of what is read are `wanted`.
    Await {
        place: Place,
        mask: i64,
        wanted: i64,
        order: Order,
        site: usize,
    },
    /// The same around a read-modify-write that exchanges `wanted` for `desired`.
    AwaitCas {
        place: Place,
        wanted: i64,
        desired: i64,
        order: Order,
        site: usize,
    },
    Fence {
        order: Order,
        site: usize,
    },
    Set {
        dst: usize,
        value: Expr,
    },
    /// Goes on at the target when the condition is 0.
    Branch {
        condition: Expr,
        target: usize,
    },
    Jump {
        target: usize,
    },
    /// Any value below `options`.
    Choose {
        dst: usize,
        options: i64,
    },
    Assert {
        condition: Expr,
        message: &'static str,
    },
    /// Executions that come here are none: others stand for them.
    Impossible,
    /// The bound of a loop is reached: what lies behind is not looked at.
    Cut,
    End,
}

/// For each operation of a thread: what `of` says of it and of all that may follow.
/// Jumps only go forwards: loops are unrolled.
pub fn from_here_on(code: &[Op], of: fn(&Op) -> u128) -> Vec<u128> {
    let mut sets = vec![0; code.len() + 1];
    for (pc, op) in code.iter().enumerate().rev() {
        sets[pc] = of(op)
            | match op {
                Op::Jump { target } => sets[*target],
                Op::Branch { target, .. } => sets[*target] | sets[pc + 1],
                Op::Cut | Op::End | Op::Impossible => 0,
                _ => sets[pc + 1],
            };
    }
    sets
}

/// How a site is changed for one run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    To(Order),
    /// A read-modify-write becomes a load and a store; a fence vanishes.
    Broken,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteKind {
    Load,
    Store,
    Rmw,
    Fence,
}

#[derive(Clone, Debug)]
pub struct Site {
    pub name: &'static str,
    pub kind: SiteKind,
    pub order: Order,
}

/// What is planted in a program: a weakened site, or a mistake that the protocol
/// knows by name.
#[derive(Clone, Default)]
pub struct Planted {
    pub site: Option<(&'static str, Change)>,
    pub bug: Option<&'static str>,
}

/// Memory and registers at the end of an execution that ended everywhere.
pub struct Final<'a> {
    pub memory: &'a dyn Fn(usize) -> i64,
    pub register: &'a dyn Fn(usize, usize) -> i64,
}

impl Final<'_> {
    pub fn at(&self, loc: Loc, index: usize) -> i64 {
        (self.memory)(loc.first + index)
    }
    pub fn get(&self, loc: Loc) -> i64 {
        self.at(loc, 0)
    }
    pub fn reg(&self, thread: usize, reg: Expr) -> i64 {
        match reg.0 {
            Node::Reg(number) => (self.register)(thread, *number),
            _ => panic!("no register"),
        }
    }
}

pub type Check = Box<dyn Fn(&Final) -> Result<(), &'static str>>;

/// A whole program, and what must hold of it.
pub struct Program {
    pub locations: Vec<(String, i64)>,
    pub threads: Vec<Vec<Op>>,
    pub sites: Vec<Site>,
    pub at_end: Option<Check>,
    /// Whether a thread that waits for ever is an error.
    pub must_end: bool,
    planted: Planted,
    /// Whether what is planted is anywhere here.
    applied: bool,
}

impl Program {
    pub fn new(planted: &Planted) -> Program {
        Program {
            locations: vec![],
            threads: vec![],
            sites: vec![],
            at_end: None,
            must_end: false,
            planted: planted.clone(),
            applied: false,
        }
    }
    pub fn array(&mut self, name: &str, initial: &[i64]) -> Loc {
        let first = self.locations.len();
        for (i, value) in initial.iter().enumerate() {
            let name = if initial.len() == 1 { name.to_string() } else { format!("{name}[{i}]") };
            self.locations.push((name, *value));
        }
        Loc { first, len: initial.len() }
    }
    /// What a location of an array holds at the start, instead.
    pub fn start(&mut self, loc: Loc, index: usize, value: i64) {
        self.locations[loc.first + index].1 = value;
    }
    pub fn var(&mut self, name: &str, initial: i64) -> Loc {
        self.array(name, &[initial])
    }
    pub fn thread<R>(&mut self, body: impl FnOnce(&mut Thread) -> R) -> R {
        let mut thread = Thread::new(self);
        let result = body(&mut thread);
        let code = thread.end();
        self.threads.push(code);
        result
    }
    pub fn at_end(&mut self, check: impl Fn(&Final) -> Result<(), &'static str> + 'static) {
        self.at_end = Some(Box::new(check));
    }
    /// Whether what was planted is anywhere in this program: if not, there is
    /// nothing to look for.
    pub fn has_planted(&self) -> bool {
        self.applied
    }
    /// Whether the named mistake is planted.
    pub fn bug(&mut self, name: &'static str) -> bool {
        let here = self.planted.bug == Some(name);
        self.applied |= here;
        here
    }
    /// The number of a site, and how it is changed in this run.
    pub fn site(&mut self, name: &'static str, kind: SiteKind, order: Order) -> (usize, Option<Change>) {
        let change = match self.planted.site {
            Some((site, change)) if site == name => {
                self.applied = true;
                Some(change)
            }
            _ => None,
        };
        let number = self.sites.iter().position(|site| site.name == name).unwrap_or_else(|| {
            self.sites.push(Site { name, kind, order });
            self.sites.len() - 1
        });
        let site = &self.sites[number];
        assert!(site.kind == kind && site.order == order, "the site {name} is used in two ways");
        (number, change)
    }
    /// All sites of several programs, by name.
    pub fn all_sites(programs: &[Program]) -> Vec<Site> {
        let mut all = BTreeMap::new();
        for site in programs.iter().flat_map(|program| &program.sites) {
            all.entry(site.name).or_insert_with(|| site.clone());
        }
        all.into_values().collect()
    }
}
