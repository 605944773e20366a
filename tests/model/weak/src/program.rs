//! Programs under test: a few threads of loads, stores, read-modify-writes,
//! fences, branches and bounded loops over named locations, and what must hold.
//!
//! A protocol is written as a Rust function that builds one. Each access carries
//! the name of its site, a line of the allocator's source; a change (see `Change`)
//! weakens one site, everywhere it occurs.
//!
//! SPDX-License-Identifier: MIT
use crate::expr::{Expr, Node};
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
    Or,
    Add,
}

impl Update {
    pub fn apply(self, old: i64, operand: i64) -> i64 {
        match self {
            Update::Exchange => operand,
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
        let mut thread = Thread { code: vec![], registers: 0, breaks: vec![], program: self };
        let result = body(&mut thread);
        thread.code.push(Op::End);
        let code = std::mem::take(&mut thread.code);
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
    fn site(&mut self, name: &'static str, kind: SiteKind, order: Order) -> (usize, Option<Change>) {
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

/// Builds the code of one thread.
pub struct Thread<'a> {
    code: Vec<Op>,
    registers: usize,
    breaks: Vec<Vec<usize>>,
    program: &'a mut Program,
}

impl Thread<'_> {
    /// Whether the named mistake is planted.
    pub fn bug(&mut self, name: &'static str) -> bool {
        let here = self.program.planted.bug == Some(name);
        self.program.applied |= here;
        here
    }
    fn number(reg: Expr) -> usize {
        match reg.0 {
            Node::Reg(number) => *number,
            _ => panic!("no register"),
        }
    }
    pub fn reg(&mut self) -> Expr {
        self.registers += 1;
        Expr::new(Node::Reg(self.registers - 1))
    }
    pub fn set(&mut self, reg: Expr, value: impl Into<Expr>) {
        self.code.push(Op::Set { dst: Self::number(reg), value: value.into() });
    }
    pub fn local(&mut self, value: impl Into<Expr>) -> Expr {
        let reg = self.reg();
        self.set(reg, value);
        reg
    }
    fn order(order: Order, change: Option<Change>) -> Order {
        match change {
            Some(Change::To(weaker)) => weaker,
            _ => order,
        }
    }
    pub fn load(&mut self, place: impl Into<Place>, order: Order, site: &'static str) -> Expr {
        let reg = self.reg();
        self.load_to(reg, place, order, site);
        reg
    }
    pub fn load_to(&mut self, reg: Expr, place: impl Into<Place>, order: Order, site: &'static str) {
        let (site, change) = self.program.site(site, SiteKind::Load, order);
        let order = Self::order(order, change);
        self.code.push(Op::Load { dst: Self::number(reg), place: place.into(), order, site });
    }
    pub fn store(&mut self, place: impl Into<Place>, value: impl Into<Expr>, order: Order, site: &'static str) {
        let (site, change) = self.program.site(site, SiteKind::Store, order);
        let order = Self::order(order, change);
        self.code.push(Op::Store { place: place.into(), value: value.into(), order, site });
    }
    pub fn rmw(
        &mut self,
        place: impl Into<Place>,
        update: Update,
        operand: impl Into<Expr>,
        order: Order,
        site: &'static str,
    ) -> Expr {
        let (place, operand) = (place.into(), operand.into());
        let dst = self.reg();
        let (site, change) = self.program.site(site, SiteKind::Rmw, order);
        if change == Some(Change::Broken) {
            let load = if order.acquires() {
                if order == Order::Seq { order } else { Order::Acquire }
            } else {
                Order::Relaxed
            };
            let store = if order.releases() {
                if order == Order::Seq { order } else { Order::Release }
            } else {
                Order::Relaxed
            };
            self.code.push(Op::Load { dst: Self::number(dst), place, order: load, site });
            let value = match update {
                Update::Exchange => operand,
                Update::Or => dst | operand,
                Update::Add => dst + operand,
            };
            self.code.push(Op::Store { place, value, order: store, site });
        } else {
            let order = Self::order(order, change);
            self.code.push(Op::Rmw { dst: Self::number(dst), place, update, operand, order, site });
        }
        dst
    }
    pub fn exchange(
        &mut self,
        place: impl Into<Place>,
        value: impl Into<Expr>,
        order: Order,
        site: &'static str,
    ) -> Expr {
        self.rmw(place, Update::Exchange, value, order, site)
    }
    /// Compare and swap, strong. Returns the old value. On failure it is a load with
    /// the order's acquire part, as the machines do it; C's model reads it relaxed.
    pub fn cas(
        &mut self,
        place: impl Into<Place>,
        expected: impl Into<Expr>,
        desired: impl Into<Expr>,
        order: Order,
        site: &'static str,
    ) -> Expr {
        let (place, expected, desired) = (place.into(), expected.into(), desired.into());
        let dst = self.reg();
        let (site, change) = self.program.site(site, SiteKind::Rmw, order);
        if change == Some(Change::Broken) {
            let load = if order.acquires() { Order::Acquire } else { Order::Relaxed };
            let store = if order.releases() { Order::Release } else { Order::Relaxed };
            self.code.push(Op::Load { dst: Self::number(dst), place, order: load, site });
            self.if_(dst.is(expected), |t| t.code.push(Op::Store { place, value: desired, order: store, site }));
        } else {
            let order = Self::order(order, change);
            self.code.push(Op::Cas { dst: Self::number(dst), place, expected, desired, order, sure: false, site });
        }
        dst
    }
    /// The same where only executions count in which it succeeds.
    pub fn sure_cas(
        &mut self,
        place: impl Into<Place>,
        expected: impl Into<Expr>,
        desired: impl Into<Expr>,
        order: Order,
        site: &'static str,
    ) {
        let (site, change) = self.program.site(site, SiteKind::Rmw, order);
        let (order, dst) = (Self::order(order, change), Self::number(self.reg()));
        let (place, expected, desired) = (place.into(), expected.into(), desired.into());
        self.code.push(Op::Cas { dst, place, expected, desired, order, sure: true, site });
    }
    pub fn await_value(&mut self, place: impl Into<Place>, wanted: i64, order: Order, site: &'static str) {
        self.await_bits(place, -1, wanted, order, site);
    }
    pub fn await_bits(&mut self, place: impl Into<Place>, mask: i64, wanted: i64, order: Order, site: &'static str) {
        let (site, change) = self.program.site(site, SiteKind::Load, order);
        let order = Self::order(order, change);
        self.code.push(Op::Await { place: place.into(), mask, wanted, order, site });
    }
    pub fn await_cas(&mut self, place: impl Into<Place>, wanted: i64, desired: i64, order: Order, site: &'static str) {
        let (site, change) = self.program.site(site, SiteKind::Rmw, order);
        let place = place.into();
        if change == Some(Change::Broken) {
            self.code.push(Op::Await { place, mask: -1, wanted, order: Order::Acquire, site });
            self.code.push(Op::Store { place, value: desired.into(), order: Order::Relaxed, site });
        } else {
            let order = Self::order(order, change);
            self.code.push(Op::AwaitCas { place, wanted, desired, order, site });
        }
    }
    pub fn fence(&mut self, order: Order, site: &'static str) {
        let (site, change) = self.program.site(site, SiteKind::Fence, order);
        if change != Some(Change::Broken) {
            self.code.push(Op::Fence { order: Self::order(order, change), site });
        }
    }
    pub fn choose(&mut self, options: i64) -> Expr {
        let reg = self.reg();
        self.code.push(Op::Choose { dst: Self::number(reg), options });
        reg
    }
    pub fn assert(&mut self, condition: Expr, message: &'static str) {
        self.code.push(Op::Assert { condition, message });
    }
    /// Leaves executions out in which the condition is 0.
    pub fn assume(&mut self, condition: Expr) {
        self.if_(!condition, |t| t.code.push(Op::Impossible));
    }
    pub fn if_(&mut self, condition: Expr, then: impl FnOnce(&mut Self)) {
        self.if_else(condition, then, |_| ());
    }
    pub fn if_else(&mut self, condition: Expr, then: impl FnOnce(&mut Self), otherwise: impl FnOnce(&mut Self)) {
        let branch = self.code.len();
        self.code.push(Op::Cut);
        then(self);
        let jump = self.code.len();
        self.code.push(Op::Cut);
        self.code[branch] = Op::Branch { condition, target: self.code.len() };
        otherwise(self);
        self.code[jump] = Op::Jump { target: self.code.len() };
    }
    /// Runs the body until it breaks out, at most `bound` times.
    pub fn repeat(&mut self, bound: usize, mut body: impl FnMut(&mut Self)) {
        self.breaks.push(vec![]);
        for _ in 0..bound {
            body(self);
        }
        self.code.push(Op::Cut);
        self.close_loop();
    }
    /// Something that `leave` can leave early.
    pub fn block(&mut self, body: impl FnOnce(&mut Self)) {
        self.breaks.push(vec![]);
        body(self);
        self.close_loop();
    }
    fn close_loop(&mut self) {
        let end = self.code.len();
        for jump in self.breaks.pop().expect("a loop is open") {
            self.code[jump] = Op::Jump { target: end };
        }
    }
    /// Leaves the innermost loop or block, or with 1 the one around it, and so on.
    pub fn leave(&mut self, outer: usize) {
        let level = self.breaks.len() - 1 - outer;
        self.breaks[level].push(self.code.len());
        self.code.push(Op::Cut);
    }
}
