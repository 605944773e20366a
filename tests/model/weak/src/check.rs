//! What is asked of a protocol: that it is right in every scenario under both
//! models, and that each order that its source asks for is needed: weakened, some
//! scenario has to go wrong, or a reason why none can has to be given.
//!
//! SPDX-License-Identifier: MIT
use crate::explore::{Outcome, Pick, explore};
use crate::graph::Model;
use crate::program::{Change, Order, Planted, Program, Site, SiteKind};

pub struct Scenario {
    pub name: &'static str,
    pub build: fn(&mut Program),
}

pub struct Protocol {
    pub name: &'static str,
    pub scenarios: Vec<Scenario>,
    /// Mistakes by name, which have to be found.
    pub bugs: &'static [&'static str],
    /// What the names of sites begin with that are not this protocol's: they are not weakened.
    pub others: &'static [&'static str],
    /// Weakenings that are harmless: site, change as in the report, reason.
    pub harmless: &'static [(&'static str, &'static str, &'static str)],
}

/// Steps after which an exploration is given up; none comes near.
const STEPS: u64 = 40_000_000;

pub const MODELS: [(&str, Model); 2] = [("C11", Model::C11), ("ARMv8", Model::ARM_WEAKEST)];

pub fn build(scenario: &Scenario, planted: &Planted) -> Program {
    let mut program = Program::new(planted);
    (scenario.build)(&mut program);
    program
}

/// All ways to weaken a site.
pub fn changes(site: &Site) -> Vec<Change> {
    use Order::*;
    let weaker: &[Order] = match (site.kind, site.order) {
        (SiteKind::Load, Seq) => &[Acquire, Relaxed],
        (SiteKind::Load, Acquire) | (SiteKind::Store, Release) => &[Relaxed],
        (SiteKind::Store, Seq) => &[Release, Relaxed],
        (SiteKind::Load | SiteKind::Store, Relaxed) => &[Plain],
        (SiteKind::Rmw, Seq) => &[AcqRel, Acquire, Release, Relaxed],
        (SiteKind::Rmw, AcqRel) => &[Acquire, Release, Relaxed],
        (SiteKind::Rmw, Acquire | Release) => &[Relaxed],
        (SiteKind::Fence, Seq) => &[AcqRel],
        _ => &[],
    };
    let mut all: Vec<Change> = weaker.iter().map(|order| Change::To(*order)).collect();
    if matches!(site.kind, SiteKind::Rmw | SiteKind::Fence) {
        all.push(Change::Broken);
    }
    all
}

pub fn order_name(order: Order) -> &'static str {
    match order {
        Order::Plain => "plain",
        Order::Relaxed => "relaxed",
        Order::Acquire => "acquire",
        Order::Release => "release",
        Order::AcqRel => "acq_rel",
        Order::Seq => "seq",
    }
}

pub fn change_name(site: &Site, change: Change) -> String {
    match change {
        Change::To(order) => order_name(order).to_string(),
        Change::Broken if site.kind == SiteKind::Fence => "none".to_string(),
        Change::Broken => "two steps".to_string(),
    }
}

pub fn run(scenario: &Scenario, planted: &Planted, model: Model, pick: Pick) -> Option<Outcome> {
    let program = build(scenario, planted);
    let is_there = planted.site.is_none() && planted.bug.is_none() || program.has_planted();
    is_there.then(|| explore(&program, model, pick, STEPS))
}
