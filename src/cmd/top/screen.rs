//! Draws the screen of `top` into a buffer. Pure: it reads no clock and writes to no terminal.

use std::time::Duration;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use super::model::{
    Entry, EntryKind, Judgement, Level, Model, Outlook, SilentCall, SlowPod, call_and_target, pod_name,
    scaled,
};
use super::view::{Page, ReplayPosition, RowId, Rows, View, row_of_call};
use crate::clock::{Mono, Wall};
use crate::cmd::render::watch::{seconds_of_day, transition};
use crate::cmd::render::words::{SHORT_ID, cut, elapsed, padded, took, width, wrapped};
use crate::diagnosis::not_ready::NotReady;
use crate::diagnosis::report::Verdict;
use crate::diagnosis::silence::SilenceLimits;
use crate::pleg::PlegState;
use crate::pleg::stream::{Event, EventSubject};
use crate::report::plural;

/// The smallest screen, as columns and lines.
pub const SMALLEST: (u16, u16) = (60, 15);

/// The lower end of the latency chart.
const FLOOR: Duration = Duration::from_millis(1);

/// The width of the labels of the latency chart.
const LABELS: usize = 6;

/// What a list shows whose rows do not pass the filter.
const NO_MATCH: &str = "none matches the filter";

/// The indent of the second and further lines of a sentence.
const INDENT: &str = "    ";

/// Parts of a cell, from one eighth to the whole.
const EIGHTHS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The two clocks at the moment that the screen shows.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub mono: Mono,
    pub wall: Wall,
}

/// Draws the whole screen.
pub fn draw(buffer: &mut Buffer, model: &Model, view: &View, moment: Moment) {
    let area = *buffer.area();
    let mut painter = Painter { buffer, width: area.width.into(), line: 0, color: view.color };
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!("{}×{} is too small", area.width, area.height);
        painter.text(&text, Style::new());
        painter.text(&format!("top needs {}×{}", SMALLEST.0, SMALLEST.1), Style::new());
        return;
    }
    let sizes = Sizes::fitting(area.height, model, view.replay.is_some());
    let now = moment.mono;
    let judgement = model.judge(now);
    painter.heading(model, view, moment);
    if let Some(replay) = &view.replay {
        painter.timeline(replay, view.paused, moment.wall);
    }
    painter.verdict(&judgement, model, moment);
    painter.gauge(model, now);
    painter.latency(model, now, sizes.chart);
    painter.kubelet(model);
    painter.limit(model);
    let last = area.height - 1;
    if let Page::Text { title, lines, top } = &view.page {
        painter.section(title, "");
        let height = usize::from(last.saturating_sub(painter.line));
        // The terminal may have become narrower since the page was made.
        let lines = page_lines(lines, area.width);
        for line in lines.iter().skip(*top).take(height) {
            painter.put(0, line, if line.starts_with(' ') { Style::new() } else { bold() });
            painter.line += 1;
        }
        let below = lines.len().saturating_sub(top + height);
        painter.line = last;
        let more =
            if below > 0 { format!("{}: ↓ PgDn   ", plural(below, "more line")) } else { String::new() };
        painter.text(&format!("{more}Esc back"), Style::new().add_modifier(Modifier::REVERSED));
        return;
    }
    let rows = Rows::matching(model, &view.filter, now);
    let selected = view.selected.as_ref();
    painter.calls(&rows.calls, selected, sizes.calls);
    let slow = sizes.pods.min(rows.pods.len().max(1));
    if sizes.pods > 0 {
        let none = if view.filter.is_empty() { "no status call yet" } else { NO_MATCH };
        painter.slow_pods(&rows.pods, selected, slow, none);
    }
    let left = usize::from(last.saturating_sub(painter.line)).saturating_sub(1);
    painter.entries(&rows.entries, view, left);
    painter.line = last;
    painter.footer(view);
}

/// Breaks the lines of a page between words at this width.
pub fn page_lines(lines: &[String], width: u16) -> Vec<String> {
    lines.iter().flat_map(|line| wrapped(line, width.into(), INDENT)).collect()
}

/// Returns how many lines a page of text has on a screen of this height.
pub fn page_height(height: u16, model: &Model, replays: bool) -> usize {
    let sizes = Sizes::fitting(height, model, replays);
    usize::from(height).saturating_sub(sizes.above + 2)
}

/// How many lines each part of the screen has.
struct Sizes {
    /// The lines above the lists.
    above: usize,
    chart: usize,
    calls: usize,
    pods: usize,
}

impl Sizes {
    /// Divides a screen of this height among its parts.
    fn fitting(height: u16, model: &Model, replay: bool) -> Self {
        let (chart, calls, pods) = match height {
            ..20 => (1, 1, 0),
            20..32 => (3, 2, 3),
            32..50 => (5, 4, 6),
            _ => (8, 6, 14),
        };
        let lines = [model.kubelet.is_some(), !model.limits.is_empty(), replay];
        let above = 5 + chart + lines.into_iter().map(usize::from).sum::<usize>();
        Self { above, chart, calls, pods }
    }
}

/// Returns the style of bold text.
const fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Returns the style of text in this color.
const fn colored(color: Color) -> Style {
    Style::new().fg(color)
}

/// Returns the colour of a verdict.
const fn verdict_color(verdict: Verdict) -> Color {
    match verdict {
        Verdict::Healthy => Color::Green,
        Verdict::Degraded => Color::Yellow,
        Verdict::Unhealthy => Color::Red,
        Verdict::Unknown => Color::Cyan,
    }
}

/// Returns the colour of a silence of this length.
fn silence_style(waited: Duration) -> Style {
    let limits = SilenceLimits::default();
    if waited >= limits.certain {
        colored(Color::Red).add_modifier(Modifier::BOLD)
    } else if limits.hangs(waited) {
        colored(Color::Yellow)
    } else {
        Style::new()
    }
}

/// Draws line by line. `put` escapes every text.
struct Painter<'a> {
    buffer: &'a mut Buffer,
    width: usize,
    line: u16,
    color: bool,
}

impl Painter<'_> {
    /// Draws a line of differently styled parts.
    fn parts(&mut self, parts: &[(&str, Style)]) {
        let mut column = 0;
        for (text, style) in parts {
            column += self.put(column, text, *style);
        }
        self.line += 1;
    }

    /// Draws a line with one text.
    fn text(&mut self, text: &str, style: Style) {
        self.parts(&[(text, style)]);
    }

    /// Draws text at a column of this line; returns its width.
    fn put(&mut self, column: usize, text: &str, style: Style) -> usize {
        let style = if self.color { style } else { Style { fg: None, ..style } };
        let area = *self.buffer.area();
        let Some(x) = u16::try_from(column).ok().filter(|x| *x < area.width && self.line < area.height)
        else {
            return 0;
        };
        // `cut` escapes the text.
        let text = cut(text, self.width - column);
        let (end, _) = self.buffer.set_stringn(x, self.line, &text, usize::from(area.width - x), style);
        usize::from(end - x)
    }

    /// Draws the title line of a list, with a note at its right end.
    fn section(&mut self, title: &str, note: &str) {
        let style = colored(Color::Cyan).add_modifier(Modifier::BOLD);
        let title = cut(title, self.width);
        self.put(0, &title, style);
        let at = self.width.saturating_sub(width(note));
        if at > width(&title) + 1 {
            self.put(at, note, colored(Color::DarkGray));
        }
        self.line += 1;
    }

    /// Draws the first line: the node, the runtime, the number of relists and the time.
    fn heading(&mut self, model: &Model, view: &View, moment: Moment) {
        let time = format!("{} UTC", seconds_of_day(moment.wall));
        let node = model.node.as_deref().unwrap_or("this node");
        let state = if view.paused { "  PAUSED" } else { "" };
        let room = self.width.saturating_sub(width(&time) + width(state) + 2);
        let relists = match model.finished {
            0 => "no relist yet".to_owned(),
            finished => format!("{} pods  relist {finished}", model.pods),
        };
        let about = format!("  {relists}  {}", model.runtime);
        let node = cut(node, room);
        let about = cut(&about, room.saturating_sub(width(&node)));
        let column = self.put(0, &node, bold());
        let column = column + self.put(column, &about, Style::new());
        self.put(column, state, colored(Color::Yellow).add_modifier(Modifier::BOLD));
        self.put(self.width.saturating_sub(width(&time)), &time, Style::new());
        self.line += 1;
    }

    /// Draws the position in a capture: `capture [──●─!──] 10×`.
    fn timeline(&mut self, replay: &ReplayPosition, paused: bool, now: Wall) {
        let state = match (replay.ended, paused) {
            (true, _) => "end".to_owned(),
            (false, true) => "paused".to_owned(),
            (false, false) => replay.speed.clone(),
        };
        let left = format!("capture {} ", seconds_of_day(replay.from));
        let right = format!(" {}  {state}", seconds_of_day(replay.to));
        let columns = self.width.saturating_sub(width(&left) + width(&right) + 1).max(2);
        let whole = replay.to.duration_since(replay.from);
        let place =
            |time: Wall| scaled(time.duration_since(replay.from), whole, columns - 1).min(columns - 1);
        let mut bar: Vec<&str> = vec!["─"; columns];
        let marks = replay.incidents.iter().map(|time| (place(*time), "!"));
        for (at, mark) in marks.chain([(place(now), "●")]) {
            if let Some(cell) = bar.get_mut(at) {
                *cell = mark;
            }
        }
        self.parts(&[(&left, Style::new()), (&bar.concat(), colored(Color::Cyan)), (&right, Style::new())]);
    }

    /// Draws the verdict and, in the second line, what follows from it.
    fn verdict(&mut self, judgement: &Judgement, model: &Model, moment: Moment) {
        let style = colored(verdict_color(judgement.verdict)).add_modifier(Modifier::BOLD);
        let word = judgement.verdict.as_str().to_uppercase();
        let word = match judgement.verdict {
            Verdict::Healthy => format!("{word} ({}) ", judgement.scope),
            Verdict::Degraded | Verdict::Unhealthy | Verdict::Unknown => format!("{word} "),
        };
        let confidence = judgement.confidence.map(|confidence| confidence.as_str().to_owned());
        let title = &judgement.title;
        let room = self.width.saturating_sub(word.len() + 1);
        let words = [confidence.clone().unwrap_or_default(), "Enter: what to do".to_owned()];
        let both = format!(" ({})", words.join("; "));
        let known = match confidence {
            None => String::new(),
            Some(_) if !judgement.ids.is_empty() && width(title) + both.len() <= room => both,
            Some(confidence) => format!(" ({confidence})"),
        };
        // The confidence stays, so a long name is cut before it.
        let title = cut(title, room.saturating_sub(known.len()));
        self.parts(&[(&word, style), (" ", style), (&title, bold()), (&known, bold())]);
        let (text, style) = match judgement.outlook {
            Outlook::Calm => (judgement.hint.clone(), Style::new()),
            Outlook::StaysReady => (
                format!(
                    "Enter: what to do; the node stays Ready: the kubelet gives up after {}",
                    elapsed(model.settings.timeout)
                ),
                Style::new(),
            ),
            Outlook::Unknown => {
                ("pods not visited yet may hang too: plegctl health visits all".to_owned(), Style::new())
            }
            Outlook::NotReady(at) => {
                let left = at.since(moment.mono);
                let wall = moment.wall.plus(left).minus(moment.mono.since(at));
                let mut text = NotReady::AtLatest(wall).text(moment.wall);
                let unless = ", unless this ends before";
                if !left.is_zero() && text.len() + unless.len() <= self.width {
                    text.push_str(unless);
                }
                (text, colored(Color::Red).add_modifier(Modifier::BOLD))
            }
        };
        self.text(&text, style);
    }

    /// Draws the age of PLEG as a part of its threshold.
    fn gauge(&mut self, model: &Model, now: Mono) {
        let age = model.age(now);
        let color = match age {
            age if age >= model.settings.threshold => Color::Red,
            age if age * 3 >= model.settings.threshold => Color::Yellow,
            _ => Color::Green,
        };
        let label = padded(&format!("PLEG age {}", countdown(age)), 16);
        let right = format!(" of {}", elapsed(model.settings.threshold));
        let columns = self.width.saturating_sub(width(&label) + width(&right) + 2);
        let filled = scaled(age, model.settings.threshold, columns).min(columns);
        let bar = "█".repeat(filled);
        let rest = "░".repeat(columns - filled);
        self.parts(&[
            (&label, Style::new()),
            (&bar, colored(color)),
            (&rest, colored(Color::DarkGray)),
            (&right, Style::new()),
        ]);
    }

    /// Draws the latency of the relists: a line of figures, and a chart with a logarithmic scale.
    fn latency(&mut self, model: &Model, now: Mono, height: usize) {
        let figures = model.latency(now).map_or_else(
            || "no relist yet".to_owned(),
            |latency| {
                format!(
                    "last {}  p50 {}  p99 {}  max {}",
                    took(latency.last),
                    took(latency.p50),
                    took(latency.p99),
                    took(latency.max)
                )
            },
        );
        let note = if self.width < 90 { "5 min, log" } else { "last 5 minutes, log scale" };
        self.section(&format!("RELIST  {figures}"), note);
        let columns = self.width.saturating_sub(LABELS + 1);
        let values = model.chart(columns, now);
        let largest = values.iter().flatten().copied().max().unwrap_or_default();
        let mut decades = 3;
        while decades < 6 && FLOOR * 10_u32.pow(decades) < largest {
            decades += 1;
        }
        let top = FLOOR * 10_u32.pow(decades);
        let levels: Vec<Option<usize>> =
            values.iter().map(|value| value.map(|value| level(value, top, height * 8))).collect();
        for row in (0..height).rev() {
            let label = match row {
                _ if row + 1 == height => took(top),
                0 => took(FLOOR),
                _ => String::new(),
            };
            let label = label.replace(".00", "").replace(".0", "");
            self.put(0, &format!("{label:>LABELS$}"), colored(Color::DarkGray));
            for (column, (level, value)) in levels.iter().zip(&values).enumerate() {
                let Some((level, value)) = level.zip(*value) else {
                    continue;
                };
                let part = level.saturating_sub(row * 8).min(8);
                let symbol = part.checked_sub(1).and_then(|part| EIGHTHS.get(part)).copied().unwrap_or(" ");
                let style = match value {
                    value if value >= SilenceLimits::default().likely => colored(Color::Red),
                    value if value >= Duration::from_secs(1) => colored(Color::Yellow),
                    _ => colored(Color::Green),
                };
                self.put(LABELS + 1 + column, symbol, style);
            }
            self.line += 1;
        }
    }

    /// Draws the kubelet's own figures, if they are known.
    fn kubelet(&mut self, model: &Model) {
        let Some(figures) = &model.kubelet else { return };
        let age = figures.age().map_or_else(|| "unknown".to_owned(), elapsed);
        let mean = figures.relists.filter(|(count, _)| *count > 0.0).and_then(|(count, seconds)| {
            Some(format!("  mean relist {}", took(Duration::try_from_secs_f64(seconds / count).ok()?)))
        });
        let discarded = figures.discarded.map(|count| format!("  discarded events {count}"));
        let text = format!(
            "KUBELET  PLEG age {age}{}{}  at {}",
            mean.unwrap_or_default(),
            discarded.unwrap_or_default(),
            seconds_of_day(figures.read)
        );
        self.text(&text, Style::new());
    }

    /// Draws the limit that will be reached first, if there is one.
    fn limit(&mut self, model: &Model) {
        if let Some(limit) = model.limits.first() {
            self.text(&format!("LIMIT  {}", limit.finding.title), Style::new());
        }
    }

    /// Draws the pending calls.
    fn calls(&mut self, calls: &[SilentCall], selected: Option<&RowId>, height: usize) {
        if calls.is_empty() {
            self.section("PENDING CALLS  none", "");
            return;
        }
        self.section(&format!("PENDING CALLS  {}", calls.len()), "waiting");
        let chosen = selected.and_then(|id| calls.iter().position(|call| row_of_call(call) == *id));
        let waited = |call: &SilentCall| {
            if call.given_up { format!("given up, {}", elapsed(call.waited)) } else { countdown(call.waited) }
        };
        let columns = window(calls, height, chosen).map(|(_, call)| width(&waited(call))).max().unwrap_or(0);
        for (at, call) in window(calls, height, chosen) {
            let waited = format!("{:>columns$}", waited(call));
            let style = silence_style(call.waited);
            let id = call.id.as_deref().map(short).unwrap_or_default();
            self.row(&[(call_and_target(call), 0), (id, SHORT_ID)], &waited, style, chosen == Some(at));
        }
    }

    /// Draws the pods with the slowest status calls. `none` is shown without any.
    fn slow_pods(&mut self, pods: &[SlowPod], selected: Option<&RowId>, height: usize, none: &str) {
        self.section("SLOWEST PODS", if pods.is_empty() { none } else { "slowest call" });
        let chosen = selected.and_then(|id| pods.iter().position(|pod| pod.row() == *id));
        let columns =
            window(pods, height, chosen).map(|(_, slow)| width(&took(slow.took))).max().unwrap_or(0);
        for (at, slow) in window(pods, height, chosen) {
            let call = slow
                .container
                .as_ref()
                .map_or_else(|| slow.rpc.clone(), |name| format!("{} {name}", slow.rpc));
            let calls = if slow.calls == 1 { "call" } else { "calls" };
            let parts = [(pod_name(&slow.pod), 0), (call, 30), (format!("{:>5} {calls}", slow.calls), 12)];
            // A column as wide as its widest cell keeps the columns before it in their places.
            let took = format!("{:>columns$}", took(slow.took));
            self.row(&parts, &took, silence_style(slow.took), chosen == Some(at));
        }
    }

    /// Draws the transitions and the notices, the newest first.
    fn entries(&mut self, entries: &[&Entry], view: &View, height: usize) {
        let (title, none) = if view.filter.is_empty() {
            ("TRANSITIONS".to_owned(), "none yet")
        } else {
            (format!("TRANSITIONS  filter: {}", view.filter), NO_MATCH)
        };
        self.section(&title, if entries.is_empty() { none } else { "newest first" });
        let chosen = view
            .selected
            .as_ref()
            .and_then(|id| entries.iter().position(|entry| *id == RowId::Entry(entry.number)));
        for (at, entry) in window(entries, height, chosen) {
            let time = seconds_of_day(entry.time);
            let (text, right, style) = match &entry.kind {
                EntryKind::Notice(level, text) => (text.clone(), String::new(), level_style(*level)),
                EntryKind::Event(event) => (subject(event), change(event), event_style(event)),
            };
            self.row(&[(format!("{time}  {text}"), 0)], &right, style, chosen == Some(at));
        }
    }

    /// Draws a row of columns: the first column gets the room that the others leave; `right` is never cut before it.
    fn row(&mut self, columns: &[(String, usize)], right: &str, style: Style, selected: bool) {
        let style = if selected { style.add_modifier(Modifier::REVERSED) } else { style };
        // On a narrow screen the columns in the middle are left out.
        let middle: usize = columns.iter().skip(1).map(|(_, size)| size + 2).sum();
        let fits = self.width >= 30 + middle + width(right);
        let middle = if fits { middle } else { 0 };
        let first = self.width.saturating_sub(middle + width(right) + 2);
        let mut line = String::new();
        for (at, (text, size)) in columns.iter().enumerate() {
            let size = if at == 0 { first } else { *size };
            if at == 0 || fits {
                line.push_str(&padded(&cut(text, size), size));
                line.push_str("  ");
            }
        }
        line.push_str(right);
        self.put(0, &padded(&line, self.width), style);
        self.line += 1;
    }

    /// Draws the last line: the input of the user, a message, or the keys.
    fn footer(&mut self, view: &View) {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        let text = match (&view.page, &view.message) {
            (Page::Filter, _) => format!("filter: {}▏  Enter keeps it, Esc clears it", view.filter),
            (Page::BundlePath(path), _) => format!("write the bundle to: {path}▏"),
            (_, Some(message)) => message.clone(),
            _ if view.replay.is_some() => {
                "←→ 10s  [] incident  +- speed  p pause  Enter explain  / filter  ? help  q quit".to_owned()
            }
            _ => "↑↓ select  Enter explain  / filter  p pause  s bundle  ? help  q quit".to_owned(),
        };
        // The end of what the user types stays in sight.
        let mut shown = text.as_str();
        if matches!(view.page, Page::Filter | Page::BundlePath(_)) {
            while width(shown) > self.width {
                let mut rest = shown.chars();
                rest.next();
                shown = rest.as_str();
            }
        }
        let line = padded(&cut(shown, self.width), self.width);
        self.put(0, &line, style);
        self.line += 1;
    }
}

/// Returns the rows that fit, with their index: the first ones, or those around the chosen one.
fn window<T>(rows: &[T], height: usize, chosen: Option<usize>) -> impl Iterator<Item = (usize, &T)> {
    let first = chosen.map_or(0, |chosen| (chosen + 1).saturating_sub(height));
    rows.iter().enumerate().skip(first).take(height)
}

/// Returns the height of a duration in the chart, at least 1. The chart is logarithmic, and `top` has the height `steps`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "few steps"
)]
fn level(value: Duration, top: Duration, steps: usize) -> usize {
    let decades = |value: Duration| (value.as_secs_f64() / FLOOR.as_secs_f64()).max(1.0).log10();
    let part = decades(value) / decades(top) * steps as f64;
    (part.ceil() as usize).clamp(1, steps)
}

/// Formats a time that runs: always with seconds.
fn countdown(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m{:02}s", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

/// Returns the beginning of an id.
fn short(id: &str) -> String {
    id.chars().take(SHORT_ID).collect()
}

/// Returns the pod and the container of an event.
fn subject(event: &Event) -> String {
    let pod = pod_name(&event.pod);
    let id = || short(event.id.as_deref().unwrap_or_default());
    match event.subject {
        EventSubject::Pod => pod,
        EventSubject::Sandbox => format!("{pod}  sandbox"),
        EventSubject::Container => {
            let name = event.name.clone().filter(|name| !name.is_empty());
            format!("{pod}  {}", name.unwrap_or_else(id))
        }
    }
}

/// Returns the new state of an event's subject: `running → exited (137 OOMKilled)`; without a state, the event's type.
fn change(event: &Event) -> String {
    let event_type = if event.to.is_none() { event.event_type.as_str() } else { "" };
    format!("{event_type}{}", transition(event))
}

/// Returns the style of an event, by its new state.
fn event_style(event: &Event) -> Style {
    match event.to {
        Some(PlegState::Running) => colored(Color::Green),
        Some(PlegState::Exited) if event.exit_code.is_some_and(|code| code != 0) => colored(Color::Red),
        Some(PlegState::Exited) => colored(Color::Yellow),
        Some(PlegState::Unknown) => colored(Color::Cyan),
        Some(PlegState::NonExistent) | None => colored(Color::DarkGray),
    }
}

/// Returns the style of a notice.
const fn level_style(level: Level) -> Style {
    match level {
        Level::Good => Style::new(),
        Level::Warning => colored(Color::Yellow),
        Level::Critical => colored(Color::Red),
    }
}

/// Returns an empty screen of this size.
pub fn empty((columns, lines): (u16, u16)) -> Buffer {
    Buffer::empty(Rect::new(0, 0, columns, lines))
}
