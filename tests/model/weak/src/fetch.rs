//! Runs the threads of a graph ahead, and adds the events that they come to.
//!
//! SPDX-License-Identifier: MIT
use crate::graph::{Event, Graph, Kind, MAX_EVENTS, Model, NONE, Status, Value, bit, members};
use crate::program::{Op, Order, Place, Update};

impl Graph<'_> {
    pub fn add(&mut self, thread: u8, kind: Kind, order: Order, site: usize) -> u8 {
        let number = self.events.len();
        assert!(number < MAX_EVENTS, "the program is too large for this checker");
        self.events.push(Event {
            thread,
            kind,
            order,
            site: site as u16,
            done: false,
            awaits: None,
            compares_with: 0,
            sure: false,
            loc: NONE,
            value: 0,
            place: (0, 0, 0),
            operand: 0,
            from: NONE,
            partner: NONE,
            after_partner: false,
            deferred: 0,
            addr: 0,
            data: 0,
            ctrl: 0,
            lob: 0,
            hb: 0,
            sync: 0,
        });
        number as u8
    }

    fn add_access(&mut self, t: usize, kind: Kind, place: Place, operand: u16, order: Order, site: usize) -> u8 {
        let index = self.compile(t, place.index);
        let event = self.add(t as u8, kind, order, site);
        let (addr, data) = (self.deps(index), if kind == Kind::Write { self.deps(operand) } else { 0 });
        let e = &mut self.events[event as usize];
        e.place = (place.first as u8, place.len as u8, index);
        (e.operand, e.addr, e.data) = (operand, addr, data);
        if let Model::Arm { rcpc, .. } = self.model {
            self.order_in_thread(t, event, rcpc);
        }
        self.threads[t].mine |= bit(event);
        self.settle_address(event);
        event
    }

    /// ARMv8: what an event that is fetched is ordered after, by what it is and by
    /// what was fetched before it.
    fn order_in_thread(&mut self, t: usize, event: u8, rcpc: bool) {
        let thread = &mut self.threads[t];
        let e = &mut self.events[event as usize];
        e.ctrl = thread.ctrl;
        e.lob = e.addr | e.data | thread.before_fence | thread.before_load_fence | thread.before_full_rmw;
        e.lob |= thread.acquiring;
        if e.kind == Kind::Write {
            e.lob |= thread.ctrl | thread.addresses;
            if e.order.releases() {
                e.lob |= thread.mine;
                thread.releasing |= bit(event);
            }
        } else if e.order.acquires() {
            thread.acquiring |= bit(event);
            // LDAPR lets an earlier release be overtaken; LDAR does not. Read-modify-writes
            // have no such form: their partner is not known yet, see `add_rmw`.
            if !(rcpc && e.order == Order::Acquire) {
                e.lob |= thread.releasing;
            }
        }
        thread.addresses |= e.addr;
    }

    pub fn settle_address(&mut self, event: u8) {
        let (first, len, index) = self.events[event as usize].place;
        if self.events[event as usize].loc == NONE
            && len != 0
            && let Some(index) = self.evaluate(index)
        {
            assert!((0..len as i64).contains(&index), "an index is out of its array");
            self.events[event as usize].loc = first + index as u8;
        }
    }

    fn result(&mut self, t: usize, dst: usize, event: u8) {
        let node = self.value_node(Value::Read(event), bit(event));
        self.threads[t].registers[dst] = node;
    }

    /// The write half of a read-modify-write whose read half is there.
    fn add_rmw_write(&mut self, t: usize, read: u8, place: Place, operand: u16, order: Order, site: usize) {
        let write = self.add_access(t, Kind::Write, place, operand, order, site);
        self.events[read as usize].partner = write;
        self.events[write as usize].partner = read;
        let may_load = self.may_load[t][self.threads[t].pc + 1];
        self.events[write as usize].after_partner = may_load & place.locations() == 0;
        self.events[write as usize].lob |= bit(read);
        self.threads[t].waits_for = if self.model == Model::C11 { write } else { NONE };
        if matches!(self.model, Model::Arm { lse: true, .. }) {
            // An atomic instruction with both parts is a fence for what is around it.
            if order.acquires() && order.releases() {
                let thread = &mut self.threads[t];
                thread.before_full_rmw |= thread.mine & !bit(read) & !bit(write);
            }
        }
    }

    /// The read half: acquire forms of read-modify-writes are as strong as LDAR.
    fn add_rmw_read(&mut self, t: usize, place: Place, order: Order, site: usize) -> u8 {
        let read = self.add_access(t, Kind::Read, place, 0, order, site);
        if order.acquires() && self.model != Model::C11 {
            self.events[read as usize].lob |= self.threads[t].releasing;
        }
        read
    }

    fn add_fence(&mut self, t: usize, order: Order, site: usize) {
        let event = self.add(t as u8, Kind::Fence, order, site);
        self.events[event as usize].done = true;
        if self.model == Model::C11 {
            crate::c11::fence(self, event);
        } else {
            let reads =
                members(self.threads[t].mine).filter(|e| self.events[*e as usize].is_read()).fold(0, |s, e| s | bit(e));
            let thread = &mut self.threads[t];
            if order == Order::Acquire {
                thread.before_load_fence |= reads;
            } else {
                thread.before_fence |= thread.mine;
            }
        }
        self.threads[t].mine |= bit(event);
    }

    // ---- Running ahead -------------------------------------------------------------

    /// Lets every thread come as far as it can.
    pub fn fetch(&mut self) {
        for t in 0..self.threads.len() {
            while self.threads[t].status == Status::Running && self.step(t) {}
        }
        for event in 0..self.events.len() {
            self.settle_address(event as u8);
        }
    }

    /// One step of a thread; false when it cannot be taken yet. An operation that has
    /// to wait for its read half is come to twice.
    fn step(&mut self, t: usize) -> bool {
        let waits_for = self.threads[t].waits_for;
        if waits_for != NONE && !self.events[waits_for as usize].done {
            return false;
        }
        self.threads[t].waits_for = NONE;
        let in_order = self.model == Model::C11;
        let half = std::mem::replace(&mut self.threads[t].half, NONE);
        let op = self.program.threads[t][self.threads[t].pc];
        match op {
            Op::Load { dst, place, order, site } => {
                let event = self.add_access(t, Kind::Read, place, 0, order, site);
                self.result(t, dst, event);
                self.wait_if(t, event, in_order);
            }
            Op::Store { place, value, order, site } => {
                let value = self.compile(t, value);
                let event = self.add_access(t, Kind::Write, place, value, order, site);
                self.wait_if(t, event, in_order);
            }
            Op::Rmw { dst, place, update, operand, order, site } => {
                let mut read = half;
                if half == NONE {
                    read = self.add_rmw_read(t, place, order, site);
                    if in_order {
                        return self.wait_for_half(t, read);
                    }
                }
                self.result(t, dst, read);
                let mut value = self.compile(t, operand);
                if !matches!(update, Update::Exchange) {
                    let old = self.threads[t].registers[dst];
                    let deps = self.deps(old) | self.deps(value);
                    value = self.value_node(Value::Updated(update, old, value), deps);
                }
                self.add_rmw_write(t, read, place, value, order, site);
            }
            Op::Cas { dst, place, expected, desired, order, sure, site } => {
                let expected = self.compile(t, expected);
                if half == NONE {
                    let read = self.add_rmw_read(t, place, order, site);
                    self.events[read as usize].compares_with = expected;
                    self.events[read as usize].sure = sure;
                    return self.wait_for_half(t, read);
                }
                let Some(expected) = self.evaluate(expected) else {
                    self.threads[t].half = half; // for what it compares with
                    return false;
                };
                if sure && self.events[half as usize].value != expected {
                    self.threads[t].status = Status::Impossible;
                    return true;
                }
                if self.events[half as usize].value == expected {
                    let value = self.compile(t, desired);
                    self.add_rmw_write(t, half, place, value, order, site);
                }
                self.result(t, dst, half);
            }
            Op::Await { place, mask, wanted, order, site } => {
                if half == NONE {
                    let read = self.add_access(t, Kind::Read, place, 0, order, site);
                    self.events[read as usize].awaits = Some((mask, wanted));
                    return self.wait_for_half(t, read);
                }
                self.threads[t].ctrl |= bit(half);
            }
            Op::AwaitCas { place, wanted, desired, order, site } => {
                if half == NONE {
                    let read = self.add_rmw_read(t, place, order, site);
                    self.events[read as usize].awaits = Some((-1, wanted));
                    return self.wait_for_half(t, read);
                }
                let value = self.value_node(Value::Const(desired), 0);
                self.add_rmw_write(t, half, place, value, order, site);
                self.threads[t].ctrl |= bit(half);
            }
            Op::Fence { order, site } => self.add_fence(t, order, site),
            Op::Set { dst, value } => self.threads[t].registers[dst] = self.compile(t, value),
            Op::Branch { condition, target } => {
                let condition = self.compile(t, condition);
                let Some(value) = self.evaluate(condition) else { return false };
                self.threads[t].ctrl |= self.deps(condition);
                if value == 0 {
                    self.threads[t].pc = target;
                    return true;
                }
            }
            Op::Jump { target } => {
                self.threads[t].pc = target;
                return true;
            }
            Op::Choose { .. } => {
                self.threads[t].status = Status::Choosing;
                return false;
            }
            Op::Assert { condition, message } => {
                let condition = self.compile(t, condition);
                self.asserts.push((condition, message));
            }
            Op::Impossible => self.threads[t].status = Status::Impossible,
            Op::Cut => self.threads[t].status = Status::Cut,
            Op::End => self.threads[t].status = Status::Ended,
        }
        if self.threads[t].status == Status::Running {
            self.threads[t].pc += 1;
        }
        true
    }

    /// A thread that has to choose goes on with that choice.
    pub fn chosen(&mut self, t: usize, choice: i64) {
        let Op::Choose { dst, .. } = self.program.threads[t][self.threads[t].pc] else { panic!("nothing to choose") };
        self.threads[t].registers[dst] = self.value_node(Value::Const(choice), 0);
        self.threads[t].status = Status::Running;
        self.threads[t].pc += 1;
    }

    fn wait_if(&mut self, t: usize, event: u8, in_order: bool) {
        if in_order {
            self.threads[t].waits_for = event;
        }
    }

    fn wait_for_half(&mut self, t: usize, read: u8) -> bool {
        self.threads[t].half = read;
        self.threads[t].waits_for = read;
        false
    }
}
