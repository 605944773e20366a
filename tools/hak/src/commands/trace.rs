// SPDX-License-Identifier: MIT
//! `hak trace`

use std::env;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::commands::run;
use crate::failure::{BAD_INPUT, failure};
use crate::family::Family;
use crate::helpers::Helpers;
use crate::output::{self, Output};
use crate::process;
use crate::trace::arguments::Trace as Arguments;
use crate::trace::call::{Call, Callers, IMAGE, RESIDENT, TIME};
use crate::trace::region::{Raw, Region};
use crate::trace::resident::{self, Large};
use crate::trace::ring::{Order, Sink};
use crate::trace::text::count;
use crate::trace::write::Writer;
use crate::trace::{Footer, Header};

/// hak sleeps so long where there is little to read; it is woken when there is more. So times are known to this.
const PAUSE: Duration = Duration::from_millis(1);
/// After so many events there are more already.
const MANY: u64 = 1024;
/// And so long where there was nothing for a while.
const LONG_PAUSE: Duration = Duration::from_millis(10);

pub fn run(arguments: &Arguments) -> Result<u8> {
    let to = Output::of(&arguments.output)?;
    if output::is_also_the_programs(&to) {
        return Err(failure(BAD_INPUT, is_the_programs(&arguments.output)));
    }
    if env::var_os("HAK_TRACE").is_some() {
        return Err(failure(BAD_INPUT, "a program that is traced already cannot trace another one"));
    }
    let program = Path::new(&arguments.command[0]);
    output::keep_apart([&to], [program])?;
    let helpers = Helpers::unpack()?;
    let region = Region::make()?;
    let mut command: Command = run::command(&arguments.command, &[], arguments.library.as_deref())?;
    run::put_in_front(&mut command, &helpers.trace)?;
    command.env("HAK_TRACE", region.name());
    region.give_to(&mut command);

    let words = arguments.command.iter().map(|word| word.display().to_string());
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let header = Header {
        tool_version: env!("CARGO_PKG_VERSION").into(),
        command: words.collect(),
        started_ms: u64::try_from(since_1970.as_millis())?,
        machine: env::consts::ARCH.into(),
    };
    let mut recorder = Recorder::new(Writer::create(&arguments.output, &header)?);
    let mut family = Family::start(&mut command).map_err(|error| run::cannot_start(&command, &error))?;
    let status = recorder.record(&region, &mut family);
    let is_whole = recorder.finish(&region, status, family.caught(), arguments)?;
    drop(helpers); // hak may end by a signal now, as the program has
    Ok(run::end_as(status, is_whole))
}

fn is_the_programs(name: &Path) -> String {
    if name == Path::new("-") {
        return "cannot write the trace to standard output, which is the program's; a file named - is ./-".into();
    }
    format!("cannot write the trace to {}: it is the program's standard output or standard error", name.display())
}

struct Recorder {
    order: Order,
    record: Record,
}

/// What becomes of events.
struct Record {
    callers: Callers,
    large: Large,
    writer: Writer,
    /// Why nothing is written any more.
    failed: Option<anyhow::Error>,
}

impl Record {
    #[inline(always)]
    fn write(&mut self, call: &Call) {
        if self.failed.is_none() && self.writer.add(call) {
            self.failed = self.writer.flush().err();
        }
    }
}

impl Sink for Record {
    #[inline(always)]
    fn event(&mut self, ring: usize, raw: Raw) {
        if let Some(call) = self.callers.call(ring, raw) {
            if call.size >= resident::LARGE || matches!(call.op, RESIDENT | IMAGE) {
                self.large.note(&call);
            }
            self.write(&call);
        }
    }
    fn time(&mut self, microseconds: u64) {
        self.write(&Call { op: TIME, size: microseconds, ..Call::default() });
    }
}

impl Recorder {
    fn new(writer: Writer) -> Recorder {
        let record = Record { callers: Callers::default(), large: Large::default(), writer, failed: None };
        Recorder { order: Order::new(), record }
    }

    /// Until the program has ended.
    fn record(&mut self, region: &Region, family: &mut Family) -> ExitStatus {
        let mut idle = 0;
        loop {
            let ended = family.poll();
            let is_last_look = region.is_last_look();
            let count = self.drain(region, ended.is_some());
            if is_last_look {
                for call in self.record.large.resident(region.traced()) {
                    self.record.write(&call);
                }
                region.has_looked();
            }
            if let Some(status) = ended {
                return status;
            }
            idle = if count > 0 { 0 } else { idle + 1 };
            if count < MANY {
                region.sleep(if idle < 100 { PAUSE } else { LONG_PAUSE });
            }
        }
    }

    fn drain(&mut self, region: &Region, is_last: bool) -> u64 {
        if self.record.failed.is_some() {
            return 0;
        }
        let count = self.order.drain(region, is_last, &mut self.record);
        if let Some(error) = &self.record.failed {
            region.stop();
            output::say(format_args!("hak: the trace ends here, the program goes on: {error:#}"));
        }
        count
    }

    /// Whether all of it is in the trace.
    fn finish(self, region: &Region, status: ExitStatus, caught: Option<u64>, arguments: &Arguments) -> Result<bool> {
        let Record { callers, writer, failed, .. } = self.record;
        let events = writer.events;
        if failed.is_some() {
            return Ok(false);
        }
        let footer = Footer {
            events,
            threads: callers.threads(),
            seconds: self.order.seconds(),
            lost: region.lost() + self.order.missed + callers.strange,
            status: process::describe(status),
        };
        let size = writer.finish(&footer)?;
        let name = arguments.output.display();
        if region.images() == 0 {
            output::say(format_args!("hak: the trace {name} is empty: {}", why_unrecorded(region)));
            return Ok(false);
        }
        let each = size as f64 / events.max(1) as f64;
        let (events, threads) = (count(events, "event"), count(footer.threads, "thread"));
        output::say(format_args!("hak: {name}: {events} of {threads}, {each:.2} bytes each"));
        if footer.lost > 0 {
            output::say(format_args!("hak: {} events are not in it: see docs/trace.md", footer.lost));
        }
        let unrecorded = region.failure().is_some() || !region.was_recorded(caught);
        if unrecorded {
            let reason = why_unrecorded(region);
            output::say(format_args!("hak: what the program became by exec is not recorded: {reason}"));
        }
        if region.given_up() {
            output::say("hak: the program took hak for gone and recorded no more, so the end is not in the trace");
        }
        Ok(footer.lost == 0 && !unrecorded && !region.given_up())
    }
}

fn why_unrecorded(region: &Region) -> String {
    region.failure().map_or_else(
        || "the library that records was not loaded, or could not open what it shares with hak".into(),
        |error| format!("it could not map the memory that it shares with hak: {error}"),
    )
}
