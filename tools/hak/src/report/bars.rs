// SPDX-License-Identifier: MIT
//! Bars as parts of the page, which are readable at any width of it.

use maud::{Markup, html};

use crate::allocators::HAKMEM;
use crate::report::colours::Colours;

/// One allocator's bar. Less is better.
pub struct Bar {
    pub name: String,
    /// `None`: it failed, or the ratio's text says why.
    pub value: Option<f64>,
    /// Each is a dot; the whisker goes from the smallest to the largest.
    pub samples: Vec<f64>,
    pub shown: String,
    pub ratio: String,
    pub hint: String,
    pub is_base: bool,
    pub is_noise: bool,
}

/// From zero on.
pub fn bars(colours: &Colours, bars: &[Bar]) -> Markup {
    let largest = bars.iter().flat_map(|bar| bar.samples.iter().copied().chain(bar.value)).fold(0.0, f64::max);
    let part = |value: f64| if largest > 0.0 { value / largest * 100.0 } else { 0.0 };
    let base = bars.iter().find(|bar| bar.is_base).and_then(|bar| bar.value);
    html! {
        div.bars {
            @for bar in bars {
                div.bar.base[bar.is_base].noise[bar.is_noise].hakmem[bar.name == HAKMEM] title=(bar.hint) {
                    span.name { i.dot style=(format!("background:{}", colours.css(&bar.name))) {} (bar.name) }
                    span.track {
                        @if let Some(value) = bar.value {
                            @let fill = if bar.is_noise { "var(--noise)".into() } else { colours.css(&bar.name) };
                            i.fill style=(format!("width:{:.2}%;background:{fill}", part(value))) {}
                            (samples(&bar.samples, &part))
                        }
                        @if let Some(base) = base { i.mark style=(format!("left:{:.2}%", part(base))) {} }
                    }
                    span.value { @if bar.value.is_some() { (bar.shown) } @else { "failed" } }
                    span.ratio { (bar.ratio) }
                }
            }
        }
    }
}

fn samples(samples: &[f64], part: &dyn Fn(f64) -> f64) -> Markup {
    let least = part(samples.iter().copied().fold(f64::MAX, f64::min));
    let most = part(samples.iter().copied().fold(0.0, f64::max));
    html! {
        @if samples.len() > 1 {
            i.whisker style=(format!("left:{least:.2}%;width:{:.2}%", most - least)) {}
            @for sample in samples { i.sample style=(format!("left:{:.2}%", part(*sample))) {} }
        }
    }
}

/// One row of the suite: how many times as much hakmem takes.
pub struct Lead {
    pub row: String,
    pub ratio: f64,
    pub shown: String,
    pub hint: String,
    pub is_noise: bool,
}

/// Bars from a middle line, on a logarithmic scale: to the left hakmem takes less.
pub fn leads(leads: &[Lead], peer: &str) -> Markup {
    let most = leads.iter().map(|lead| lead.ratio.log2().abs()).fold(0.1, f64::max).min(4.0);
    let half = |lead: &Lead| lead.ratio.log2().clamp(-most, most).abs() / most * 50.0;
    html! {
        div.leads {
            div.lead.axis {
                span.name {}
                span.track { span.less { "← hakmem less" } span.more { "more →" } }
                span.ratio { "to " (peer) }
            }
            @for lead in leads {
                @let less = lead.ratio < 1.0;
                @let side = if less { "right" } else { "left" };
                div.lead.noise[lead.is_noise] title=(lead.hint) {
                    span.name { (lead.row) }
                    span.track {
                        i.fill.good[less].bad[!less] style=(format!("{side}:50%;width:{:.2}%", half(lead))) {}
                        i.mark style="left:50%" {}
                    }
                    span.ratio { (lead.shown) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_parts_of_the_largest_sample_and_noise_has_no_colour() {
        let bar = |name: &str, value, is_noise| Bar {
            name: name.into(),
            value,
            samples: vec![1.0, 4.0],
            shown: "1 <s>".into(),
            ratio: String::new(),
            hint: "\"hint\"".into(),
            is_base: name == "glibc",
            is_noise,
        };
        let colours = Colours::new(["hakmem".into(), "glibc".into(), "other".into()]);
        let all = [bar("glibc", Some(2.0), false), bar("hakmem", Some(1.0), true), bar("other", None, false)];
        let text = bars(&colours, &all).into_string();
        assert!(text.contains(&format!("width:50.00%;background:{}", colours.css("glibc"))), "{text}");
        assert!(text.contains("width:25.00%;background:var(--noise)"), "{text}");
        assert!(text.contains("failed") && !text.contains("<s>") && text.contains("&quot;hint&quot;"), "{text}");
        assert_eq!(text.matches("class=\"mark\" style=\"left:50.00%\"").count(), 3, "{text}");
        assert!(!bars(&colours, &[]).into_string().contains("NaN"));
    }

    #[test]
    fn leads_go_to_the_left_where_hakmem_takes_less() {
        let lead =
            |ratio: f64| Lead { row: "r".into(), ratio, shown: String::new(), hint: String::new(), is_noise: false };
        let text = leads(&[lead(0.5), lead(4.0)], "glibc").into_string();
        assert!(text.contains("fill good\" style=\"right:50%;width:25.00%"), "{text}");
        assert!(text.contains("fill bad\" style=\"left:50%;width:50.00%"), "{text}");
    }
}
