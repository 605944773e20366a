//! Checks a protocol whole, and writes what came out as tables.
//!
//! SPDX-License-Identifier: MIT
use crate::check::{MODELS, Protocol, Scenario, build, change_name, changes, order_name, run};
use crate::explore::{Error, Pick};
use crate::graph::Model;
use crate::program::{Change, Order, Planted, Program, Site};
use std::fmt::Write;

/// A protocol's tables, and how many things are wrong.
#[derive(Default)]
pub struct Report {
    pub markdown: String,
    pub wrong: Vec<String>,
}

/// Where one planted thing is found, for each model.
type Findings = [Option<String>; MODELS.len()];

/// Does something for each model, at once.
fn for_each_model<R: Send>(work: impl Fn(Model) -> R + Sync) -> [R; MODELS.len()] {
    std::thread::scope(|scope| {
        let work = &work;
        MODELS
            .map(|(_, model)| scope.spawn(move || work(model)))
            .map(|thread| thread.join().expect("it does not panic"))
    })
}

fn look_for(protocol: &Protocol, planted: &Planted, wrong: &mut Vec<String>) -> Findings {
    let findings = for_each_model(|model| {
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
    });
    findings.map(|(finding, too_large)| {
        wrong.extend(too_large);
        finding
    })
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
        let go = |model, pick| run(scenario, &Planted::default(), model, pick).expect("nothing is planted");
        let outcomes = for_each_model(|model| (go(model, Pick::Last), go(model, Pick::First)));
        for ((model_name, _), (outcome, again)) in MODELS.iter().zip(outcomes) {
            if (outcome.complete, outcome.cut) != (again.complete, again.cut) {
                report.wrong.push(format!("{}, {model_name}: the order of exploration matters", scenario.name));
            }
            if let Some(error) = outcome.error {
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
    for site in sites(protocol) {
        for change in changes(&site) {
            let planted = Planted { site: Some((site.name, change)), bug: None };
            let findings = look_for(protocol, &planted, &mut report.wrong);
            let change = change_name(&site, change);
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
            let _ =
                writeln!(report.markdown, "| {} | {order} | {change}{mark} | {} | {} |", site.name, cells[0], cells[1]);
        }
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
    for bug in protocol.bugs {
        let planted = Planted { site: None, bug: Some(bug) };
        let findings = look_for(protocol, &planted, &mut report.wrong);
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
