//! Writes the code of one thread: what a protocol's functions are made of.
//!
//! SPDX-License-Identifier: MIT
use crate::expr::{Expr, Node};
use crate::program::{Change, Op, Order, Place, Program, SiteKind, Update};

/// Builds the code of one thread.
pub struct Thread<'a> {
    code: Vec<Op>,
    registers: usize,
    /// Of each open loop, the jumps that leave it.
    breaks: Vec<Vec<usize>>,
    program: &'a mut Program,
}

impl<'a> Thread<'a> {
    pub fn new(program: &'a mut Program) -> Thread<'a> {
        Thread { code: vec![], registers: 0, breaks: vec![], program }
    }
    pub fn end(mut self) -> Vec<Op> {
        self.code.push(Op::End);
        self.code
    }

    /// Whether the named mistake is planted.
    pub fn bug(&mut self, name: &'static str) -> bool {
        self.program.bug(name)
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
                Update::And => dst & operand,
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
