// SPDX-License-Identifier: MIT
//! The page of the benchmark suite: the answer, means, hakmem row by row, and the tables folded.

use anyhow::Result;
use maud::{Markup, PreEscaped, html};

use crate::analysis::{self, Against, Duel, Measure};
use crate::means::{self, Mean};
use crate::report::bars::{self, Bar, Lead};
use crate::report::beside;
use crate::report::charts::{self, Cloud, Named};
use crate::report::colours::Colours;
use crate::report::format;
use crate::report::html::{answer, figure, folded};
use crate::report::html_rows;
use crate::report::sweeps;
use crate::results::{Results, Row};
use crate::stats::Difference;
use crate::suite_verdict;
use crate::verdict::Verdict;

pub fn body(results: &Results, colours: &Colours, best: bool) -> Result<Markup> {
    let against = Against::of(&results.rows, best);
    let base = match against {
        Against::One(name) => Some(name),
        Against::Best => None,
    };
    let means = means::of_all(results, against);
    let mean_bars = |of: &dyn Fn(&Mean) -> (Option<f64>, usize)| bars::bars(colours, &bars_of(&means, base, of));
    let time = mean_bars(&|mean| (mean.time, mean.time_rows));
    let memory = mean_bars(&|mean| (mean.memory, mean.memory_rows));
    let clouds: Vec<Cloud> = means
        .iter()
        .filter_map(|mean| {
            Some(Cloud { name: mean.allocator.clone(), samples: Vec::new(), centre: (mean.time?, mean.memory?) })
        })
        .collect();
    let named = Named { colours, base };
    let scatter = charts::scatter("Time against memory", "relative time", "relative memory", &named, &clouds)?;
    let scatter = PreEscaped(scatter);
    let duels = Measure::ALL.map(|measure| (measure, analysis::worst_first(results, measure, against)));
    let shown = || duels.iter().filter(|(_, duels)| !duels.is_empty());
    let counts: Vec<String> = shown()
        .map(|(measure, duels)| format!("By {}, {}.", measure.name(), analysis::count(duels, against)))
        .collect();
    let remark = format!("geometric mean of the ratios to {}; less is better", against.name());
    let peer = if against == Against::Best { "the best peer" } else { against.name() };
    let verdict = suite_verdict::of(results);
    let sentence: Vec<String> = verdict.iter().map(Verdict::sentence).collect();
    let footing = verdict.map(|verdict| suite_verdict::footing(results, &verdict));
    Ok(html! {
        (answer(&sentence, &footing.into_iter().chain(counts).collect::<Vec<_>>().join(" ")))
        div.charts {
            (figure("Time over all rows", &remark, false, time))
            (figure("Memory over all rows", &remark, false, memory))
            (figure("Time against memory", "lower left is better; the axes do not start at zero", true, scatter))
            @for (measure, duels) in shown() {
                @let title = format!("hakmem and {peer}: {}", measure.name());
                (figure(&title, "worst first; grey is noise", true, bars::leads(&leads(duels), peer)))
            }
        }
        p.soft { (analysis::definitions(against)) }
        (failures(results))
        (sweeps::page(results, colours)?)
        (beside::page(results))
        @for (measure, _) in shown() {
            @let title = format!("Every row: relative {}", measure.name());
            (folded(&title, html_rows::heat_table(results, *measure, against)))
        }
        (html_rows::told(results))
        (folded("Every row: values", html_rows::value_table(results, against)))
    })
}

fn bars_of(means: &[Mean], base: Option<&str>, of: &dyn Fn(&Mean) -> (Option<f64>, usize)) -> Vec<Bar> {
    let bar = |mean: &Mean| {
        let (value, rows) = of(mean);
        let few = format!("only {rows} rows");
        Bar {
            name: mean.allocator.clone(),
            value,
            samples: Vec::new(),
            shown: value.map_or(String::new(), |value| format!("{value:.3}")),
            ratio: if value.is_none() {
                few
            } else if base == Some(&mean.allocator) {
                "base".into()
            } else {
                String::new()
            },
            hint: format!("{}: {} in {rows} rows", mean.allocator, format::mean(value)),
            is_base: base == Some(&mean.allocator),
            is_noise: false,
        }
    };
    let mut bars: Vec<Bar> = means.iter().map(bar).collect();
    bars.sort_by(|a, b| a.value.unwrap_or(f64::MAX).total_cmp(&b.value.unwrap_or(f64::MAX)));
    bars
}

fn leads(duels: &[(&Row, Duel)]) -> Vec<Lead> {
    let lead = |(row, duel): &(&Row, Duel)| {
        let remark = format::difference(duel.difference);
        let (ours, theirs) = (format::number(duel.hakmem_value), format::number(duel.peer_value));
        Lead {
            row: row.name.clone(),
            ratio: duel.ratio,
            shown: format!("{} {remark}", format::ratio(duel.ratio)).trim_end().to_owned(),
            hint: format!("{}: hakmem {ours}, {} {theirs} {remark}", row.name, duel.peer).trim_end().to_owned(),
            is_noise: duel.difference == Difference::Noise,
        }
    };
    duels.iter().map(lead).collect()
}

fn failures(results: &Results) -> Markup {
    let failures = results.failures();
    let not_run = || results.rows.iter().filter_map(|row| Some((row, row.not_run.as_ref()?)));
    html! {
        @if !failures.is_empty() || not_run().next().is_some() {
            h2 { "What did not work" }
            ul.failed {
                @for failure in failures { li { (failure) } }
                @for (row, reason) in not_run() { li { (row.name) " was not run: " (reason) } }
            }
        }
    }
}
