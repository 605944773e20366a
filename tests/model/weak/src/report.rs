//! Checks a protocol whole, and writes what came out as tables.
//!
//! SPDX-License-Identifier: MIT
use crate::check::{MODELS, Protocol, Scenario, build, change_name, changes, order_name, run};
use crate::explore::{Error, Pick};
use crate::graph::Model;
use crate::program::{Change, Order, Planted, Program, Site};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::available_parallelism;

/// A protocol's tables, and how many things are wrong.
#[derive(Default)]
pub struct Report {
    pub markdown: String,
    pub wrong: Vec<String>,
}

/// Where one planted thing is found, for each model.
type Findings = [Option<String>; MODELS.len()];

/// Does something for each item, as many at a time as there are processors. In the items' order.
fn at_once<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, processors) = (AtomicUsize::new(0), available_parallelism().map_or(1, usize::from));
    let take = || {
        let mut done = vec![];
        // Relaxed: only the counting itself is shared; joining hands over the results.
        while let Some((i, item)) = Some(next.fetch_add(1, Relaxed)).and_then(|i| items.get(i).map(|item| (i, item))) {
            done.push((i, work(item)));
        }
        done
    };
    let mut all: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect()
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, result)| result).collect()
}

/// What is found of one planted thing under one model, and what could not be explored to its end.
fn look(protocol: &Protocol, planted: &Planted, model: Model) -> (Option<String>, Option<String>) {
    let mut too_large = None;
    if model != Model::C11 && matches!(planted.site, Some((_, Change::To(Order::Plain)))) {
        return (None, None); // the same instruction
    }
    for scenario in &protocol.scenarios {
        let Some(outcome) = run(scenario, planted, model, Pick::Last) else { continue };
        if let Some(Error { message, .. }) = outcome.error {
            return (Some(format!("{message} ({})", scenario.name)), None);
        }
        if outcome.gave_up {
            too_large = Some(format!("{} under {model:?} is too large", scenario.name));
        }
    }
    (None, too_large)
}

fn look_for(protocol: &Protocol, all: &[Planted], wrong: &mut Vec<String>) -> Vec<Findings> {
    let items: Vec<(&Planted, Model)> =
        all.iter().flat_map(|planted| MODELS.map(|(_, model)| (planted, model))).collect();
    let mut looks = at_once(&items, |(planted, model)| look(protocol, planted, *model)).into_iter();
    let mut next = || {
        let (finding, too_large) = looks.next().expect("one for each item");
        wrong.extend(too_large);
        finding
    };
    all.iter().map(|_| std::array::from_fn(|_| next())).collect()
}

fn cell(finding: &Option<String>) -> &str {
    finding.as_deref().unwrap_or("–")
}

/// Every scenario as the source is, under each model.
fn check_right(protocol: &Protocol, report: &mut Report) {
    let _ = writeln!(
        report.markdown,
        "| scenario | events | C11: executions, cut | ARMv8: executions, cut |\n|---|---:|---:|---:|"
    );
    for scenario in &protocol.scenarios {
        let mut counts = vec![];
        let mut events = 0;
        let ways = MODELS.map(|(_, model)| [(model, Pick::Last), (model, Pick::First)]).concat();
        let go = |(model, pick): &(Model, Pick)| run(scenario, &Planted::default(), *model, *pick);
        let outcomes = at_once(&ways, |way| go(way).expect("nothing is planted"));
        for ((model_name, _), outcomes) in MODELS.iter().zip(outcomes.chunks(2)) {
            let (outcome, again) = (&outcomes[0], &outcomes[1]);
            if (outcome.complete, outcome.cut) != (again.complete, again.cut) {
                report.wrong.push(format!("{}, {model_name}: the order of exploration matters", scenario.name));
            }
            if let Some(error) = &outcome.error {
                let what = format!("{}, {}, {model_name}: {}", protocol.name, scenario.name, error.message);
                report.wrong.push(format!("{what}. The execution:\n{}", error.execution));
            } else if outcome.gave_up || outcome.complete == 0 {
                report.wrong.push(format!("{}, {model_name}: no execution, or too many", scenario.name));
            }
            events = events.max(outcome.most_events);
            counts.push(format!("{}, {}", outcome.complete, outcome.cut));
        }
        let _ = writeln!(report.markdown, "| {} | {events} | {} |", scenario.name, counts.join(" | "));
    }
}

fn sites(protocol: &Protocol) -> Vec<Site> {
    let programs: Vec<Program> =
        protocol.scenarios.iter().map(|scenario: &Scenario| build(scenario, &Planted::default())).collect();
    let is_ours = |site: &Site| !protocol.others.iter().any(|prefix| site.name.starts_with(prefix));
    Program::all_sites(&programs).into_iter().filter(is_ours).collect()
}

fn check_weakened(protocol: &Protocol, report: &mut Report) {
    let _ = writeln!(report.markdown, "\n| site | order | weakened to | C11 | ARMv8 |\n|---|---|---|---|---|");
    let mut excused = vec![];
    let all: Vec<(Site, Change)> = sites(protocol)
        .into_iter()
        .flat_map(|site| changes(&site).into_iter().map(move |change| (site.clone(), change)))
        .collect();
    let planted: Vec<Planted> =
        all.iter().map(|(site, change)| Planted { site: Some((site.name, *change)), bug: None }).collect();
    let findings = look_for(protocol, &planted, &mut report.wrong);
    for ((site, change), findings) in all.iter().zip(findings) {
        let change = change_name(site, *change);
        let excuse = protocol.harmless.iter().position(|(s, c, _)| *s == site.name && *c == change);
        let what = format!("{}: {} weakened to {change}", protocol.name, site.name);
        match (findings.iter().all(Option::is_none), excuse) {
            (true, None) => report.wrong.push(format!("{what} is not found, and no reason is given")),
            (false, Some(_)) => report.wrong.push(format!("{what} is found, though a reason says it is harmless")),
            _ => {}
        }
        let mark = excuse.map_or(String::new(), |number| {
            if !excused.contains(&number) {
                excused.push(number);
            }
            format!(" ({})", letter(protocol, number))
        });
        let (order, cells) = (order_name(site.order), findings.each_ref().map(cell));
        let _ = writeln!(report.markdown, "| {} | {order} | {change}{mark} | {} | {} |", site.name, cells[0], cells[1]);
    }
    for number in 0..protocol.harmless.len() {
        if !excused.contains(&number) {
            let (site, change, _) = protocol.harmless[number];
            report.wrong.push(format!("{}: there is no '{site}' to be weakened to {change}", protocol.name));
        }
    }
}

/// Reasons are told apart by letters; equal ones share theirs.
fn letter(protocol: &Protocol, number: usize) -> char {
    let reasons = reasons(protocol);
    let position = reasons.iter().position(|r| *r == protocol.harmless[number].2).expect("it is one of them");
    (b'a' + position as u8) as char
}

fn reasons(protocol: &Protocol) -> Vec<&'static str> {
    let mut all: Vec<&'static str> = vec![];
    for (_, _, reason) in protocol.harmless {
        if !all.contains(reason) {
            all.push(reason);
        }
    }
    all
}

fn check_bugs(protocol: &Protocol, report: &mut Report) {
    let _ = writeln!(report.markdown, "\n| mistake | C11 | ARMv8 |\n|---|---|---|");
    let planted: Vec<Planted> = protocol.bugs.iter().map(|bug| Planted { site: None, bug: Some(*bug) }).collect();
    for (bug, findings) in protocol.bugs.iter().zip(look_for(protocol, &planted, &mut report.wrong)) {
        if findings.iter().all(Option::is_none) {
            report.wrong.push(format!("{}: the mistake '{bug}' is not found", protocol.name));
        }
        let _ = writeln!(report.markdown, "| {bug} | {} | {} |", cell(&findings[0]), cell(&findings[1]));
    }
}

pub fn check(protocol: &Protocol) -> Report {
    let mut report = Report::default();
    check_right(protocol, &mut report);
    check_weakened(protocol, &mut report);
    for (i, reason) in reasons(protocol).iter().enumerate() {
        let _ = writeln!(report.markdown, "\n({}) {reason}.", (b'a' + i as u8) as char);
    }
    check_bugs(protocol, &mut report);
    report
}
