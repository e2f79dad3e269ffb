//! Writes `capture report -o html`: one page that loads nothing from elsewhere.
//!
//! The drawing is an SVG, below labels in HTML, which keep their size when the script zooms the SVG. One unit of the SVG's
//! height is one pixel. All text from the capture is escaped and never becomes a part of the script.

use std::io::{self, Write};

use serde::Deserialize;

use crate::capture::list::ListedIncident;
use crate::capture::report::{CallBar, CaptureReport};
use crate::clock::Wall;
use crate::cmd::render::capture::{self as text, brief, text_at};
use crate::cmd::render::words::took;
use crate::diagnosis::report::RuleId;
use crate::pleg::latency::LatencyHistogram;
use crate::report::escape::is_hostile;
use crate::report::plural;

/// The width of the drawing, in units of the SVG.
const WIDTH: f64 = 1000.0;
/// The height of the latency plot and of the age plot, in pixels.
const PLOT: f64 = 120.0;
/// The height of the picture of a limit, in pixels.
const LIMIT_PLOT: f64 = 80.0;
/// The height of the title of a part, in pixels.
const TITLE: f64 = 24.0;
/// The height of the calls of one pod, with their label, in pixels.
const LANE: f64 = 28.0;
/// The maximum number of pods whose calls are drawn; the pods with the longest calls come first.
const MAX_LANES: usize = 12;
/// The maximum number of points of a line; a screen has fewer columns.
const MAX_POINTS: usize = 1500;
/// The distances between two labels of an axis, in seconds.
const STEPS: [f64; 18] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0,
    21_600.0, 43_200.0, 86_400.0,
];

const STYLE: &str = include_str!("html.css");
const SCRIPT: &str = include_str!("html.js");

/// Writes the page.
pub fn page(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    let title = match report.node.as_str() {
        "" => "PLEG flight record".to_owned(),
        node => format!("PLEG flight record of {node}"),
    };
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\"><title>{}</title>\n<style>{}</style></head><body>",
        escape_html(&title),
        STYLE
    )?;
    writeln!(
        out,
        "<header><h1>{}</h1><p><time>{}</time> — <time>{}</time><br>{}<br>written by plegctl {}</p></header>",
        escape_html(&title),
        brief(report.from),
        brief(report.to),
        escape_html(&text::runtime(&report.runtime)),
        env!("CARGO_PKG_VERSION")
    )?;
    figures(report, out)?;
    incidents(report, out)?;
    drawing(report, out)?;
    limits(report, out)?;
    stacks(report, out)?;
    notes(report, out)?;
    calls(report, out)?;
    events(report, out)?;
    writeln!(out, "<script>{SCRIPT}</script></body></html>")
}

/// Escapes text from the capture.
fn escape_html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Characters that move, reorder or hide the text around them.
            letter if is_hostile(letter) => safe.extend(letter.escape_unicode()),
            letter => safe.push(letter),
        }
    }
    safe
}

/// Writes the section with the incidents.
fn incidents(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<section><h2>Incidents</h2>")?;
    if report.incidents.is_empty() {
        return writeln!(out, "<p>None.</p></section>");
    }
    for incident in &report.incidents {
        let lasted = match (incident.lasted_seconds, incident.at_least_seconds) {
            (Some(lasted), _) => format!("lasted {}", took(lasted.duration())),
            (None, Some(least)) => {
                format!("lasted at least {}: its recorder ended first", took(least.duration()))
            }
            (None, None) => "still open when the recording ends".to_owned(),
        };
        let verdict = incident.verdict.as_deref().unwrap_or("unknown");
        writeln!(
            out,
            "<article class=\"incident {}\"><h3>Incident {}: {}</h3><p>{} — {lasted}<br>opened because: {}</p>",
            escape_html(verdict),
            incident.number,
            escape_html(incident.summary.as_deref().unwrap_or(&incident.why)),
            brief(incident.from),
            escape_html(&incident.why)
        )?;
        finding(incident, out)?;
        writeln!(out, "</article>")?;
    }
    writeln!(out, "</section>")
}

/// Writes the evidence of an incident's primary finding.
fn finding(incident: &ListedIncident, out: &mut dyn Write) -> io::Result<()> {
    let Some(primary) = &incident.primary else { return Ok(()) };
    let lines = primary.pointer("/evidence").and_then(serde_json::Value::as_array).into_iter().flatten();
    let lines: Vec<&str> = lines.filter_map(serde_json::Value::as_str).collect();
    if !lines.is_empty() {
        writeln!(out, "<h4>Evidence</h4><ul>")?;
        lines.iter().try_for_each(|line| writeln!(out, "<li>{}</li>", escape_html(line)))?;
        writeln!(out, "</ul>")?;
    }
    writeln!(
        out,
        "<p>What this means: <code>plegctl explain {}</code>. The worst moment again: <code>plegctl health -r \
         capture:PATH@incident:{}</code></p>",
        escape_html(text_at(primary, "/id")),
        incident.number
    )
}

/// Writes the figures of all relists.
fn figures(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    let failed = report.relists.iter().filter(|point| point.error.is_some()).count();
    let oldest = report.relists.iter().map(|point| point.age_seconds).max().unwrap_or_default();
    let mut shown = vec![("relists", report.relists.len().to_string()), ("failed", failed.to_string())];
    if let Some(latency) = latencies(report).quantiles() {
        shown.push(("p50", took(latency.p50.duration())));
        shown.push(("p99", took(latency.p99.duration())));
        shown.push(("longest", took(latency.max.duration())));
    }
    let threshold = took(report.threshold_seconds.duration());
    shown.push(("highest age", format!("{} of {threshold}", took(oldest.duration()))));
    write!(out, "<dl>")?;
    for (name, value) in shown {
        write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>")?;
    }
    writeln!(out, "</dl>")
}

/// Returns the histogram of the relists' durations.
fn latencies(report: &CaptureReport) -> LatencyHistogram {
    let mut latencies = LatencyHistogram::default();
    for point in &report.relists {
        latencies.add(point.duration_seconds.duration());
    }
    latencies
}

/// Writes the goroutine findings.
fn stacks(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    if report.stacks.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section><h2>Inside the runtime</h2>")?;
    for stacks in &report.stacks {
        let (time, summary, findings) = text::stack_findings(stacks);
        writeln!(
            out,
            "<article class=\"incident\"><h3>{}</h3><p>{}</p>",
            escape_html(summary),
            escape_html(time)
        )?;
        let lines: Vec<String> = findings.iter().map(|line| escape_html(line)).collect();
        writeln!(out, "<pre>{}</pre></article>", lines.join("\n"))?;
    }
    writeln!(out, "</section>")
}

/// Writes the notes on the clock and the kubelet.
fn notes(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    let jumps = report.jumps.iter().map(text::clock_jump);
    let waits = text::waits_for_first_relist(report);
    let lines: Vec<String> = waits.chain(jumps).chain(text::kubelet_samples(&report.kubelet)).collect();
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section><h2>Notes</h2><ul>")?;
    for line in lines {
        writeln!(out, "<li>{}</li>", escape_html(&line))?;
    }
    writeln!(out, "</ul></section>")
}

/// Converts times and durations into positions on the drawing.
struct DrawingScale {
    from: Wall,
    seconds: f64,
}

impl DrawingScale {
    /// Returns the horizontal position of a time.
    fn x(&self, time: Wall) -> f64 {
        (time.seconds_since(self.from) / self.seconds * WIDTH).clamp(0.0, WIDTH)
    }
}

/// The parts of the drawing.
struct Drawing<'a> {
    report: &'a CaptureReport,
    scale: DrawingScale,
    /// The shapes in the SVG.
    shapes: Vec<String>,
    /// The labels in HTML.
    labels: Vec<String>,
}

/// Writes the drawing: the durations of the relists, the age of PLEG, and the calls and events of each pod.
fn drawing(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    let scale = DrawingScale { from: report.from, seconds: report.to.seconds_since(report.from).max(1.0) };
    let mut drawing = Drawing { report, scale, shapes: Vec::new(), labels: Vec::new() };
    let latency_top = TITLE;
    let age_top = latency_top + PLOT + TITLE;
    let both_plots = (latency_top, age_top + PLOT - latency_top);
    for (from, to) in report.times_not_recorded() {
        drawing.block("gap", from, to, both_plots, "no relist was recorded");
    }
    for (from, to) in report.times_without_relist() {
        let why = "no relist has succeeded yet: the age is a lower bound";
        drawing.block("none-yet", from, to, (age_top, PLOT), why);
    }
    drawing.latency_plot(latency_top);
    drawing.age_plot(age_top);
    let mut height = age_top + PLOT;
    if !report.calls.is_empty() {
        drawing.labels.push(part_title(height, "Calls by pod"));
        height = drawing.lanes(height + TITLE);
    }
    if !report.events.is_empty() {
        drawing.labels.push(part_title(height, "Pod events"));
        let ticks = report.events.iter().filter_map(|event| tick(event, height + TITLE, &drawing.scale));
        drawing.shapes.extend(ticks);
        height += 2.0 * TITLE;
    }
    // The blocks of the incidents come first in the SVG, so all other shapes are drawn over them.
    let others = std::mem::take(&mut drawing.shapes);
    for incident in &report.incidents {
        let to = incident.to.unwrap_or(report.to);
        drawing.block("during", incident.from, to, (0.0, height), &format!("incident {}", incident.number));
    }
    writeln!(
        out,
        "<section><h2>Timeline</h2><p class=\"keys\"><button data-zoom=\"in\">Zoom in</button> \
         <button data-zoom=\"out\">Zoom out</button> <button data-zoom=\"left\">◀</button> \
         <button data-zoom=\"right\">▶</button> <button data-zoom=\"all\">All</button> \
         <span>keys: <kbd>+</kbd> <kbd>−</kbd> <kbd>←</kbd> <kbd>→</kbd> <kbd>0</kbd></span> \
         <output id=\"shown\"></output></p><div class=\"chart\">\
         <svg id=\"timeline\" tabindex=\"0\" role=\"img\" aria-label=\"Relist latency, age, calls and events over time\" \
         viewBox=\"0 0 {WIDTH} {height}\" preserveAspectRatio=\"none\" style=\"height:{height}px\" data-from=\"{}\" \
         data-seconds=\"{}\">\n{}\n{}\n</svg><div class=\"labels\">{}</div><div class=\"labels\" id=\"ticks\">{}</div></div>",
        report.from,
        drawing.scale.seconds,
        drawing.shapes.join("\n"),
        others.join("\n"),
        drawing.labels.join("\n"),
        time_ticks(report.from, drawing.scale.seconds)
    )?;
    legend(report, out)
}

/// Writes the legend of the drawing.
fn legend(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    let slow = format!("from {} on, a relist is slow", took(report.slow_seconds.duration()));
    let threshold =
        format!("from the age of {} on, PLEG is not healthy", took(report.threshold_seconds.duration()));
    let mut entries = vec![
        ("box", "good", "a relist: its start, its end and its duration"),
        ("box", "bad", "a relist that failed or did not end"),
        ("box", "warn", "the age of the last relist"),
        ("dash", "bad", slow.as_str()),
        ("dash", "bad", threshold.as_str()),
        ("dash", "good", "p50 and p99 of the relists"),
        ("box area", "bad", "an incident"),
    ];
    if !report.times_not_recorded().is_empty() {
        entries.push(("box gap", "soft", "no relist was recorded"));
    }
    if !report.times_without_relist().is_empty() {
        entries.push(("box area", "warn", "no relist has succeeded yet: the age is a lower bound"));
    }
    if !report.calls.is_empty() {
        entries.extend([
            ("box", "bad", "a call that hung"),
            ("box", "warn", "a call that failed"),
            ("box", "good", "a call that was slow"),
        ]);
    }
    if !report.events.is_empty() {
        entries.extend([
            ("box", "good", "ContainerStarted"),
            ("box", "bad", "ContainerDied"),
            ("box", "soft", "another event"),
        ]);
    }
    writeln!(out, "<ul class=\"legend\">")?;
    for (shape, colour, text) in entries {
        writeln!(out, "<li><i class=\"{shape}\" style=\"--c:var(--{colour})\"></i>{text}</li>")?;
    }
    writeln!(out, "</ul></section>")
}

/// Writes the limits that will be reached. The picture of each has the line of its growth, and the line's extension to the limit.
fn limits(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    if report.forecasts.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section><h2>Limits that will be reached</h2>")?;
    for forecast in &report.forecasts {
        let (since, full_at) = (forecast.since, forecast.full_at);
        let scale = DrawingScale { from: since, seconds: full_at.seconds_since(since).max(1.0) };
        let y = |used: f64| LIMIT_PLOT * (1.0 - (used / as_f64(forecast.max)).clamp(0.0, 1.0));
        let minutes = forecast.taken_at.seconds_since(since) / 60.0;
        let used = as_f64(forecast.used);
        let first = y(used - forecast.per_minute.value() * minutes);
        let last = format!("{:.2},{:.2}", scale.x(forecast.taken_at), y(used));
        writeln!(
            out,
            "<h3>{}</h3><svg role=\"img\" aria-label=\"growth to a limit\" viewBox=\"0 -2 {WIDTH} {}\" \
             preserveAspectRatio=\"none\" style=\"height:{LIMIT_PLOT}px\">\n{}\n<polyline points=\"0.00,{first:.2} {last}\"/>\n\
             <polyline class=\"ahead\" points=\"{last} {WIDTH:.2},0.00\"/>\n</svg>\
             <p>{}, {}: measured since {}, last at {}; at the limit at {}</p>",
            escape_html(&forecast.to_string()),
            LIMIT_PLOT + 2.0,
            level("limit", 0.0),
            RuleId::ApproachingLimit.as_str(),
            forecast.confidence,
            brief(since),
            brief(forecast.taken_at),
            brief(full_at),
        )?;
    }
    writeln!(out, "</section>")
}

#[expect(clippy::cast_precision_loss, reason = "no limit comes near 2^52")]
const fn as_f64(amount: u64) -> f64 {
    amount as f64
}

/// Writes the title of a part of the drawing.
fn part_title(top: f64, title: &str) -> String {
    format!("<em style=\"top:{top}px\">{title}</em>")
}

/// Writes a label of a vertical axis, with its line across the drawing.
fn axis_label(y: f64, seconds: f64) -> String {
    let (value, unit) = match seconds {
        86_400.0.. => (seconds / 86_400.0, "d"),
        3_600.0.. => (seconds / 3_600.0, "h"),
        // A logarithmic axis has 100 s.
        60.0.. if seconds % 60.0 == 0.0 => (seconds / 60.0, "min"),
        0.9.. => (seconds, "s"),
        0.0 => (0.0, "s"),
        0.000_9.. => (seconds * 1e3, "ms"),
        _ => (seconds * 1e6, "µs"),
    };
    // The rounding removes the error of a product of decimal fractions.
    format!("<b style=\"top:{y:.1}px\"><span>{} {unit}</span></b>", (value * 100.0).round() / 100.0)
}

/// Draws a horizontal line.
fn level(class: &str, y: f64) -> String {
    format!("<line class=\"{class}\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{y:.2}\" y2=\"{y:.2}\"/>")
}

impl Drawing<'_> {
    /// Draws a rectangle over a period, with its upper edge at `top`.
    fn block(&mut self, class: &str, from: Wall, to: Wall, (top, height): (f64, f64), title: &str) {
        let (from, to) = (self.scale.x(from), self.scale.x(to));
        self.shapes.push(format!(
            "<rect class=\"{class}\" x=\"{from:.2}\" y=\"{top}\" width=\"{:.2}\" height=\"{height}\"><title>{title}</title></rect>",
            (to - from).max(1.0)
        ));
    }

    /// Draws each relist as a line from its start to its end, at the height of its duration. So where no relist was
    /// recorded, nothing is drawn.
    fn latency_plot(&mut self, top: f64) {
        let (report, scale) = (self.report, &self.scale);
        self.labels.push(part_title(top - TITLE, "Relist latency (logarithmic)"));
        let slow = report.slow_seconds.as_f64().max(1e-4);
        let durations = || report.relists.iter().map(|point| point.duration_seconds.as_f64().max(1e-4));
        let lowest = durations().fold(slow, f64::min).log10().floor();
        let highest = durations().fold(slow, f64::max).log10().ceil().max(lowest + 1.0);
        let y = |seconds: f64| {
            let share = (seconds.max(1e-4).log10() - lowest) / (highest - lowest);
            top + PLOT - share.clamp(0.0, 1.0) * PLOT
        };
        let mut power = lowest;
        while power <= highest {
            self.labels.push(axis_label(y(10_f64.powf(power)), 10_f64.powf(power)));
            power += 1.0;
        }
        if let Some(latency) = latencies(report).quantiles() {
            self.shapes.push(level("quantile", y(latency.p50.as_f64())));
            self.shapes.push(level("quantile", y(latency.p99.as_f64())));
        }
        self.shapes.push(level("limit", y(slow)));
        for (class, has_failed) in [("latency", false), ("latency failed", true)] {
            let points = report.relists.iter().filter(|point| point.error.is_some() == has_failed);
            let marks: Vec<_> = points
                .map(|point| (scale.x(point.began()), point.duration_seconds.as_f64(), scale.x(point.time)))
                .collect();
            let path: Vec<String> = thin_out(&marks, |mark| mark.1)
                .into_iter()
                .map(|(from, seconds, to)| {
                    format!("M{from:.2},{:.2}h{:.2}", y(seconds), (to - from).max(0.0))
                })
                .collect();
            if !path.is_empty() {
                self.shapes.push(format!("<path class=\"{class}\" d=\"{}\"/>", path.join("")));
            }
        }
    }

    /// Draws the age of the last relist. The age grows until the lists of a relist are answered; then it falls to the time
    /// since the start of that relist.
    fn age_plot(&mut self, top: f64) {
        let report = self.report;
        self.labels.push(part_title(top - TITLE, "Age of the last relist"));
        let threshold = report.threshold_seconds.as_f64();
        let lines = age_lines(report, &self.scale);
        let highest = lines.iter().flatten().map(|(_, age)| *age).fold(threshold * 1.1, f64::max).max(1.0);
        let y = |age: f64| top + PLOT - age / highest * PLOT;
        let step = axis_step(highest);
        let mut at = 0.0;
        while at <= highest {
            self.labels.push(axis_label(y(at), at));
            at += step;
        }
        self.shapes.push(level("limit", y(threshold)));
        for line in lines {
            let drawn = thin_out(&line, |point| point.1);
            let points: Vec<String> = drawn.iter().map(|(x, age)| format!("{x:.2},{:.2}", y(*age))).collect();
            self.shapes.push(format!("<polyline class=\"age\" points=\"{}\"/>", points.join(" ")));
        }
    }

    /// Draws the calls of each pod in a row of their own; calls of no pod are in the row of their RPC. Returns the lower edge.
    fn lanes(&mut self, top: f64) -> f64 {
        let mut groups: Vec<(String, Vec<&CallBar>)> = Vec::new();
        for call in &self.report.calls {
            let whose = if call.id.is_none() { call.rpc.clone() } else { call.subject() };
            match groups.iter_mut().find(|(name, _)| *name == whose) {
                Some((_, own)) => own.push(call),
                None => groups.push((whose, vec![call])),
            }
        }
        let longest =
            |own: &[&CallBar]| own.iter().map(|call| call.duration_seconds).max().unwrap_or_default();
        groups.sort_by_key(|(_, own)| std::cmp::Reverse(longest(own)));
        let left_out = groups.len().saturating_sub(MAX_LANES);
        let mut y = top;
        for (whose, own) in groups.iter().take(MAX_LANES) {
            let text =
                format!("{whose}: {}, longest {}", plural(own.len(), "call"), took(longest(own).duration()));
            self.labels.push(format!("<u style=\"top:{y}px\">{}</u>", escape_html(&text)));
            self.shapes.extend(own.iter().map(|call| bar(call, y + 17.0, &self.scale)));
            y += LANE;
        }
        if left_out > 0 {
            self.labels.push(format!(
                "<u style=\"top:{y}px\">and {}: see the table</u>",
                plural(left_out, "more pod")
            ));
            y += LANE;
        }
        y
    }
}

/// Returns the corners of the age as lines. Each time without recorded relists, and each start of a recorder, ends a line.
fn age_lines(report: &CaptureReport, scale: &DrawingScale) -> Vec<Vec<(f64, f64)>> {
    let gaps = report.times_not_recorded();
    let mut lines: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut before = None;
    for point in &report.relists {
        let mut corners = match point.listed() {
            Some(listed) => {
                vec![(listed, point.since), (listed, point.began()), (point.time, point.began())]
            }
            None => vec![(point.time, point.since)],
        };
        let is_first = before.is_none_or(|before| before < point.since);
        let after_gap = before.is_some_and(|before| gaps.iter().any(|(from, _)| *from == before));
        if is_first {
            // The first point of a recorder starts at the recorder's start, or at the left edge.
            corners.insert(0, (point.since.max(report.from), point.since));
        } else if after_gap && corners.len() > 1 {
            // Nobody knows the age before the first relist after a gap.
            corners.remove(0);
        }
        let corners =
            corners.into_iter().map(|(time, since)| (scale.x(time), time.seconds_since(since).max(0.0)));
        match lines.last_mut() {
            Some(line) if !is_first && !after_gap => line.extend(corners),
            _ => lines.push(corners.collect()),
        }
        before = Some(point.time);
    }
    lines
}

/// Reduces points to at most [`MAX_POINTS`]. Keeps the largest value of each group, so that no peak is lost.
fn thin_out<T: Copy>(points: &[T], value: impl Fn(&T) -> f64) -> Vec<T> {
    let group = points.len().div_ceil(MAX_POINTS).max(1);
    let largest =
        |group: &[T]| group.iter().copied().max_by(|left, right| value(left).total_cmp(&value(right)));
    points.chunks(group).filter_map(largest).collect()
}

/// Returns the distance between two labels of an axis; at most five labels fit, also on a phone.
fn axis_step(seconds: f64) -> f64 {
    let fits = |step: &f64| seconds / step < 4.0;
    STEPS.into_iter().find(fits).unwrap_or_else(|| (seconds / 4.0 / 86_400.0).ceil() * 86_400.0)
}

/// Writes the labels of the time axis, for a page without the script. The script writes the same labels for the part that
/// it shows.
fn time_ticks(from: Wall, seconds: f64) -> String {
    let step = axis_step(seconds);
    let begin = from.seconds_since(Wall::default());
    let mut at = (begin / step).ceil() * step;
    let mut ticks = Vec::new();
    while at <= begin + seconds {
        let share = (at - begin) / seconds * 100.0;
        let text = Wall::default().plus(std::time::Duration::from_secs_f64(at.max(0.0))).to_string();
        let shown = if step < 60.0 {
            11..19
        } else if step < 86_400.0 {
            11..16
        } else {
            5..10
        };
        ticks.push(format!(
            "<i style=\"left:{share:.2}%\"><span>{}</span></i>",
            text.get(shown).unwrap_or_default()
        ));
        at += step;
    }
    ticks.join("")
}

/// Draws a call as a bar.
fn bar(call: &CallBar, y: f64, scale: &DrawingScale) -> String {
    let (from, to) = (scale.x(call.time), scale.x(call.time.plus(call.duration_seconds.duration())));
    format!(
        "<rect class=\"call {}\" x=\"{from:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"8\"><title>{} {} {} ({})</title></rect>",
        call.outcome,
        (to - from).max(1.5),
        escape_html(&call.rpc),
        escape_html(&call.subject()),
        took(call.duration_seconds.duration()),
        call.outcome
    )
}

/// Draws an event as a short vertical line.
fn tick(event: &serde_json::Value, y: f64, scale: &DrawingScale) -> Option<String> {
    let time = event.get("time").and_then(|time| Wall::deserialize(time).ok())?;
    Some(format!(
        "<rect class=\"event {}\" x=\"{:.2}\" y=\"{y}\" width=\"1.5\" height=\"16\"><title>{} {}/{} {}</title></rect>",
        escape_html(text_at(event, "/type")),
        scale.x(time),
        escape_html(text_at(event, "/type")),
        escape_html(text_at(event, "/pod/namespace")),
        escape_html(text_at(event, "/pod/name")),
        escape_html(text_at(event, "/name"))
    ))
}

/// Writes a table, and the number of rows that were left out.
fn table(
    out: &mut dyn Write,
    title: &str,
    headers: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    left_out: usize,
) -> io::Result<()> {
    writeln!(out, "<section><h2>{title}</h2><table><thead><tr>")?;
    for header in headers {
        write!(out, "<th scope=\"col\">{header}</th>")?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for row in rows {
        write!(out, "<tr>")?;
        for cell in row {
            write!(out, "<td>{}</td>", escape_html(&cell))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table>")?;
    if left_out > 0 {
        writeln!(out, "<p>Left out: {left_out} more.</p>")?;
    }
    writeln!(out, "</section>")
}

/// Writes the table of calls.
fn calls(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.calls.iter().map(|call| {
        let whose = call.subject();
        let took = took(call.duration_seconds.duration());
        let message = call.message.clone().unwrap_or_default();
        vec![brief(call.time), call.rpc.clone(), whose, took, call.outcome.to_owned(), message]
    });
    let headers = ["Time", "Call", "Whose", "Took", "Outcome", "Messages"];
    table(out, "Calls that were slow, failed or hung", &headers, rows, report.calls_left_out)
}

/// Writes the table of events.
fn events(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.events.iter().map(|event| {
        let text = |path: &str| text_at(event, path).to_owned();
        let pod = format!("{}/{}", text_at(event, "/pod/namespace"), text_at(event, "/pod/name"));
        vec![brief(text("/time")), pod, text("/name"), text("/type"), text("/from"), text("/to")]
    });
    let headers = ["Time", "Pod", "Container", "Event", "From", "To"];
    table(out, "Pod events", &headers, rows, report.events_left_out)?;
    match text::not_judged(report) {
        Some(line) => writeln!(out, "<p>{}</p>", escape_html(&line)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::facts::ProcessRef;
    use crate::diagnosis::forecast::{LimitForecast, LimitKind};
    use crate::report::Confidence;

    #[test]
    fn text_from_outside_cannot_reorder_or_hide_the_page() {
        for letter in ['\u{200f}', '\u{61c}', '\u{2028}', '\u{feff}', '\u{202e}', '\u{200b}'] {
            assert_eq!(escape_html(&format!("a{letter}é")), format!("a{}é", letter.escape_unicode()));
        }
    }

    #[test]
    fn text_from_outside_is_no_markup() {
        assert_eq!(escape_html("<script>\"'&"), "&lt;script&gt;&quot;&#39;&amp;");
        assert_eq!(escape_html("a\u{1b}[31m\u{202e}b"), "a\\u{1b}[31m\\u{202e}b");
    }

    #[test]
    fn page_contains_what_was_not_judged() {
        let capture = crate::capture::Capture::open("tests/captures/0.1.0.plegcap".as_ref()).unwrap();
        let mut report = CaptureReport::of(&capture, crate::capture::Range::default()).unwrap();
        for (count, is_there) in [(0, false), (3, true)] {
            report.documents_not_judged = count;
            let mut out = Vec::new();
            page(&report, &mut out).unwrap();
            let shown = String::from_utf8(out).unwrap().contains("3 documents and answers not judged");
            assert_eq!(shown, is_there);
        }
    }

    #[test]
    fn page_contains_the_goroutine_findings() {
        let capture = crate::capture::Capture::open("tests/captures/0.1.0.plegcap".as_ref()).unwrap();
        let mut report = CaptureReport::of(&capture, crate::capture::Range::default()).unwrap();
        let drawn = |report: &CaptureReport| {
            let mut out = Vec::new();
            page(report, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(!drawn(&report).contains("Inside the runtime"));
        report.stacks.push(serde_json::json!({
            "time": "2026-11-22T03:00:00.000000000Z",
            "summary": "7 goroutines wait for <mutex>",
            "findings": [{
                "id": "G02", "title": "a lock is held", "confidence": "certain",
                "evidence": ["goroutine 12 holds it & waits"],
            }],
        }));
        let page = drawn(&report);
        for text_at in [
            "<h2>Inside the runtime</h2>",
            "<h3>7 goroutines wait for &lt;mutex&gt;</h3><p>2026-11-22T03:00:00.000000000Z</p>",
            "<pre>G02 a lock is held (certain)\n  goroutine 12 holds it &amp; waits</pre>",
        ] {
            assert!(page.contains(text_at), "{text_at}");
        }
    }

    fn shown(report: &CaptureReport) -> String {
        let mut out = Vec::new();
        page(report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_age_grows_from_the_recorders_start_while_no_relist_has_succeeded() {
        let page = shown(&text::tests::hung_at_once());
        for drawn in [
            r#"<polyline class="age" points="0.00,288.00 1000.00,168.00"/>"#,
            r#"<path class="latency failed" d="M0.50,"#,
            r#"<rect class="none-yet" x="0.00" y="168" width="1000.00" height="120">"#,
            "<li>no relist succeeded from ",
            "</i>no relist has succeeded yet",
        ] {
            assert!(page.contains(drawn), "{drawn}: {page}");
        }
    }

    #[test]
    fn the_age_falls_when_the_lists_are_answered_and_grows_on_while_a_status_hangs() {
        let mut report = text::tests::hung_at_once();
        let hung = &mut report.relists[0];
        hung.listed_seconds = Some(std::time::Duration::from_millis(1_900).into());
        hung.age_at_least = false;
        let page = shown(&report);
        // Two seconds after the start, and a tenth of a second less from there on.
        let drawn =
            r#"<polyline class="age" points="0.00,288.00 10.00,286.80 10.00,286.86 1000.00,168.00"/>"#;
        assert!(page.contains(drawn), "{page}");
        for untrue in [r#"class="none-yet""#, "succeeded from", "has succeeded yet"] {
            assert!(!page.contains(untrue), "{untrue}");
        }
    }

    #[test]
    fn a_limit_has_its_line_and_the_extension_to_the_limit() {
        let mut report = relists_at(&[0, 5]);
        assert!(!shown(&report).contains("Limits that will be reached"));
        let at = |hours: u64| report.from.plus(std::time::Duration::from_secs(hours * 3600));
        report.forecasts = vec![LimitForecast {
            limit: LimitKind::Threads,
            process: Some(ProcessRef { name: "<b>".into(), pid: 812 }),
            used: 5000,
            max: 10_000,
            per_minute: (1000.0 / 60.0).into(),
            since: at(0),
            taken_at: at(3),
            full_at: at(8),
            confidence: Confidence::Likely,
        }];
        let page = shown(&report);
        for part in [
            "<h3>&lt;b&gt;[812] has 5,000 of 10,000 threads",
            r#"<line class="limit" x1="0" x2="1000" y1="0.00" y2="0.00"/>"#,
            r#"<polyline points="0.00,64.00 375.00,40.00"/>"#,
            r#"<polyline class="ahead" points="375.00,40.00 1000.00,0.00"/>"#,
            "<p>D46, likely: measured since ",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    /// Returns a report of 200 seconds with relists that begin at these seconds and take 100 ms each.
    fn relists_at(seconds: &[u64]) -> CaptureReport {
        let mut report = text::tests::hung_at_once();
        let (hung, took) = (report.relists.remove(0), std::time::Duration::from_millis(100));
        let at = |second: u64| report.from.plus(std::time::Duration::from_secs(second));
        let mut since = at(0);
        report.period = std::time::Duration::from_secs(5);
        report.relists = seconds
            .iter()
            .map(|second| crate::capture::report::RelistPoint {
                time: at(*second).plus(took),
                duration_seconds: took.into(),
                listed_seconds: Some(took.into()),
                since: std::mem::replace(&mut since, at(*second)),
                age_at_least: false,
                error: None,
                ..hung.clone()
            })
            .collect();
        report
    }

    #[test]
    fn nothing_is_drawn_where_no_relist_was_recorded() {
        let page = shown(&relists_at(&[0, 5, 10, 150, 155, 160, 165, 170, 175, 180, 185, 190, 195]));
        let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("<polyline")).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        // From 10.1 s to 150 s of 200 s.
        assert!(
            page.contains(r#"<rect class="gap" x="50.50" y="24" width="699.50" height="264">"#),
            "{page}"
        );
        assert!(lines[0].contains(" 50.50,") && lines[1].contains("\"750.50,"), "{lines:?}");
        assert!(page.contains("M50.00,") && page.contains("M750.00,"), "{page}");
        let steady: Vec<u64> = (0..40).map(|number| number * 5).collect();
        let page = shown(&relists_at(&steady));
        assert!(!page.contains("class=\"gap\"") && !page.contains("box gap"), "{page}");
        assert_eq!(page.matches("<polyline").count(), 1);
    }

    #[test]
    fn axes_have_units_and_the_page_has_quantiles_and_the_version() {
        let page = shown(&relists_at(&[0, 5, 10]));
        for part in [
            "<span>100 ms</span>",
            "<span>1 s</span>",
            "<span>10 s</span>",
            "<span>0 s</span>",
            "<span>1 min</span>",
            "<span>3 min</span>",
            "<dt>p50</dt><dd>100ms</dd>",
            "<dt>p99</dt><dd>100ms</dd>",
            concat!("written by plegctl ", env!("CARGO_PKG_VERSION")),
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn the_time_axis_has_round_times() {
        let from = Wall::default().plus(std::time::Duration::from_millis(7_199_500));
        assert!(time_ticks(from, 16.0).starts_with(r#"<i style="left:3.12%"><span>02:00:00</span></i>"#));
        assert!(time_ticks(from, 3_600.0).contains("<span>02:30</span>"));
        assert!(time_ticks(from, 3e5).contains("<span>01-02</span>"));
        for seconds in [1.0, 16.0, 100.0, 3e3, 9e4, 7e5, 1e8] {
            assert!(time_ticks(from, seconds).matches("<i ").count() <= 5, "{seconds}");
        }
    }

    #[test]
    fn an_incident_has_its_evidence_and_no_commands_for_that_moment() {
        let capture = crate::capture::Capture::open("tests/captures/0.1.0.plegcap".as_ref()).unwrap();
        let page = shown(&CaptureReport::of(&capture, crate::capture::Range::default()).unwrap());
        for part in [
            "<h4>Evidence</h4><ul>\n<li>ContainerStatus of shop/db-0/postgres (55f1fe6bb863) did not answer within 10.1 s</li>",
            "<code>plegctl explain D01</code>",
            ">shop/db-0/postgres: 1 call, longest 16.0s</u>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("crictl --timeout 20s inspect 55f1fe6bb863"), "{page}");
    }

    #[test]
    fn thinning_keeps_peaks() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|x| (f64::from(x), 1.0)).collect();
        points[7777].1 = 99.0;
        let thin = thin_out(&points, |point| point.1);
        assert!(thin.len() <= MAX_POINTS);
        assert!(thin.iter().any(|(_, value)| *value > 98.0));
    }
}
