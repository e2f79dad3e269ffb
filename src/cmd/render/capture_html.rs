//! Writes `capture report -o html`: one page without external parts.
//!
//! The drawing works without the script, which only zooms. All text from outside is escaped and never becomes
//! a part of the script.

use std::io::{self, Write};

use serde::Deserialize;

use super::capture::brief;
use crate::capture::report::{CallBar, CaptureReport, RelistPoint};
use crate::clock::Wall;
use crate::report::Seconds;
use crate::report::escape::is_hostile;

/// The width and heights of the drawing, in its own units.
const WIDTH: f64 = 1000.0;
const PLOT: f64 = 120.0;
const ROW: f64 = 14.0;

/// The number of points that a line has at most, more than a screen has columns.
const MOST_POINTS: usize = 1500;

const STYLE: &str = include_str!("capture.css");
const SCRIPT: &str = include_str!("capture.js");

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
         script-src 'unsafe-inline'\"><title>{}</title>\n<style>{STYLE}</style></head><body>",
        html(&title)
    )?;
    writeln!(
        out,
        "<header><h1>{}</h1><p>{} — {}<br>{}</p></header>",
        html(&title),
        brief(report.from),
        brief(report.to),
        html(&super::capture::runtime(&report.runtime))
    )?;
    incidents(report, out)?;
    drawing(report, out)?;
    stacks(report, out)?;
    notes(report, out)?;
    calls(report, out)?;
    events(report, out)?;
    writeln!(out, "<script>{SCRIPT}</script></body></html>")
}

/// Escapes text from outside.
fn html(text: &str) -> String {
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

fn incidents(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<section><h2>Incidents</h2>")?;
    if report.incidents.is_empty() {
        return writeln!(out, "<p>None.</p></section>");
    }
    for incident in &report.incidents {
        let lasted = match (incident.lasted_seconds, incident.at_least_seconds) {
            (Some(lasted), _) => format!("lasted {}", super::words::took(lasted.duration())),
            (None, Some(least)) => {
                format!("lasted at least {}: its recorder ended first", super::words::took(least.duration()))
            }
            (None, None) => "still open when the recording ends".to_owned(),
        };
        let verdict = incident.verdict.as_deref().unwrap_or("unknown");
        writeln!(
            out,
            "<article class=\"incident {}\"><h3>Incident {}: {}</h3><p>{} — {lasted}<br>opened because: {}</p></article>",
            html(verdict),
            incident.number,
            html(incident.summary.as_deref().unwrap_or(&incident.why)),
            brief(incident.from),
            html(&incident.why)
        )?;
    }
    writeln!(out, "</section>")
}

/// Writes the goroutine findings.
fn stacks(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    if report.stacks.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section><h2>Inside the runtime</h2>")?;
    for stacks in &report.stacks {
        let (time, summary, findings) = super::capture::held_up(stacks);
        writeln!(out, "<article class=\"incident\"><h3>{}</h3><p>{}</p>", html(summary), html(time))?;
        let lines: Vec<String> = findings.iter().map(|line| html(line)).collect();
        writeln!(out, "<pre>{}</pre></article>", lines.join("\n"))?;
    }
    writeln!(out, "</section>")
}

/// Writes the notes on the clock and the kubelet.
fn notes(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    let jumps = report.jumps.iter().map(super::capture::jumped);
    let spells = super::capture::none_yet(report);
    let lines: Vec<String> = spells.chain(jumps).chain(super::capture::silences(&report.kubelet)).collect();
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section><h2>Notes</h2><ul>")?;
    for line in lines {
        writeln!(out, "<li>{}</li>", html(&line))?;
    }
    writeln!(out, "</ul></section>")
}

/// Converts times and durations into positions on the drawing.
struct DrawingScale {
    from: Wall,
    seconds: f64,
}

impl DrawingScale {
    fn x(&self, time: Wall) -> f64 {
        (time.seconds_since(self.from) / self.seconds * WIDTH).clamp(0.0, WIDTH)
    }
}

fn drawing(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    let scale = DrawingScale { from: report.from, seconds: report.to.seconds_since(report.from).max(1.0) };
    let rows = rows_of(&report.calls);
    let lanes = rows.iter().map(|(row, _)| row + 1).max().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "a drawing has few rows")]
    let bars = lanes as f64 * ROW;
    let height = 2.0 * PLOT + bars + 6.0 * ROW;
    writeln!(
        out,
        "<section><h2>Timeline</h2><p class=\"keys\"><button data-zoom=\"in\">Zoom in</button> \
         <button data-zoom=\"out\">Zoom out</button> <button data-zoom=\"left\">◀</button> \
         <button data-zoom=\"right\">▶</button> <button data-zoom=\"all\">All</button> \
         <span>keys: <kbd>+</kbd> <kbd>−</kbd> <kbd>←</kbd> <kbd>→</kbd> <kbd>0</kbd></span> \
         <output id=\"shown\"></output></p>\
         <svg id=\"timeline\" tabindex=\"0\" role=\"img\" aria-label=\"Relist latency, age, calls and events over time\" \
         viewBox=\"0 0 {WIDTH} {height}\" preserveAspectRatio=\"none\" data-from=\"{}\" data-seconds=\"{}\">",
        report.from, scale.seconds
    )?;
    let shade = |incident: &crate::capture::list::ListedIncident| {
        let (from, to) = (scale.x(incident.from), scale.x(incident.to.unwrap_or(report.to)));
        format!(
            "<rect class=\"during\" x=\"{from:.2}\" y=\"0\" width=\"{:.2}\" height=\"{height}\"><title>incident {}</title></rect>",
            (to - from).max(1.0),
            incident.number
        )
    };
    for incident in &report.incidents {
        writeln!(out, "{}", shade(incident))?;
    }
    for (from, to) in report.none_yet() {
        writeln!(
            out,
            "<rect class=\"none-yet\" x=\"{:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{PLOT}\"><title>no relist has \
             succeeded yet: the age is a lower bound</title></rect>",
            scale.x(from),
            PLOT + 2.0 * ROW,
            scale.x(to) - scale.x(from)
        )?;
    }
    let latency = corners(report, &scale, |point| vec![(point.time, point.began())]);
    // A sawtooth: the age grows until the lists of a relist set it back to that relist's own age.
    let ages = corners(report, &scale, |point| match point.listed() {
        Some(listed) => {
            vec![(listed, point.since), (listed, point.began()), (point.time, point.began())]
        }
        None => vec![(point.time, point.since)],
    });
    line(out, "latency", &latency, ROW, report.slow_seconds)?;
    line(out, "age", &ages, PLOT + 2.0 * ROW, report.threshold_seconds)?;
    let top = 2.0 * PLOT + 3.0 * ROW;
    for (row, call) in &rows {
        bar(out, call, *row, top, &scale)?;
    }
    for event in &report.events {
        tick(out, event, top + bars + ROW, &scale)?;
    }
    writeln!(
        out,
        "</svg><ol class=\"legend\"><li><b>Relist latency</b>, dashed: {} is slow</li><li><b>Age</b> of the last relist, \
         dashed: the threshold, {}{}</li><li><b>Calls</b> that were slow, failed or hung: <span class=\"silent\">hung</span>, \
         <span class=\"error\">failed</span>, <span class=\"ok\">slow</span></li><li><b>Pod events</b></li><li>On red ground: \
         <b>incidents</b></li></ol></section>",
        super::words::took(report.slow_seconds.duration()),
        super::words::took(report.threshold_seconds.duration()),
        if report.none_yet().is_empty() {
            ""
        } else {
            "; on an amber background, no relist has succeeded yet, and the age is a lower bound"
        }
    )
}

/// Returns the corners of a line that shows the time since some moment.
fn corners(
    report: &CaptureReport,
    scale: &DrawingScale,
    of: impl Fn(&RelistPoint) -> Vec<(Wall, Wall)>,
) -> Vec<(f64, f64)> {
    let mut corners = Vec::new();
    let mut before = None;
    for point in &report.relists {
        let mut own = of(point);
        // The first point of a recorder starts at the recorder's start, or at the left edge.
        if before.is_none_or(|before| before < point.since)
            && let Some((_, since)) = own.first().copied()
        {
            own.insert(0, (since.max(report.from), since));
        }
        corners.extend(own.iter().map(|(time, since)| (scale.x(*time), time.seconds_since(*since).max(0.0))));
        before = Some(point.time);
    }
    corners
}

/// Keeps the largest value of each group, so that no peak is lost.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let group = points.len().div_ceil(MOST_POINTS).max(1);
    let largest =
        |group: &[(f64, f64)]| group.iter().copied().max_by(|left, right| left.1.total_cmp(&right.1));
    points.chunks(group).filter_map(largest).collect()
}

fn line(out: &mut dyn Write, class: &str, points: &[(f64, f64)], top: f64, limit: Seconds) -> io::Result<()> {
    let limit = limit.as_f64();
    let highest = points.iter().map(|(_, value)| *value).fold(limit * 1.1, f64::max).max(1e-9);
    let y = |value: f64| top + PLOT - value / highest * PLOT;
    let drawn: Vec<String> =
        thinned(points).iter().map(|(x, value)| format!("{x:.2},{:.2}", y(*value))).collect();
    writeln!(
        out,
        "<line class=\"base\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{0:.2}\" y2=\"{0:.2}\"/>\
         <line class=\"limit\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{1:.2}\" y2=\"{1:.2}\"/>\
         <polyline class=\"{class}\" points=\"{2}\"><title>{class}, highest {3}</title></polyline>",
        y(0.0),
        y(limit),
        drawn.join(" "),
        super::words::took(std::time::Duration::from_secs_f64(
            points.iter().map(|(_, value)| *value).fold(0.0, f64::max)
        ))
    )
}

/// Places overlapping calls in separate rows, each call in the first free row.
fn rows_of(calls: &[CallBar]) -> Vec<(usize, &CallBar)> {
    let mut ends: Vec<Wall> = Vec::new();
    let mut placed = Vec::new();
    for call in calls {
        let end = call.time.plus(call.duration_seconds.duration());
        let free = ends.iter().position(|busy| *busy <= call.time);
        let row = free.unwrap_or(ends.len());
        match ends.get_mut(row) {
            Some(busy) => *busy = end,
            None => ends.push(end),
        }
        placed.push((row, call));
    }
    placed
}

#[expect(clippy::cast_precision_loss, reason = "a drawing has few rows")]
fn bar(out: &mut dyn Write, call: &CallBar, row: usize, top: f64, scale: &DrawingScale) -> io::Result<()> {
    let (from, to) = (scale.x(call.time), scale.x(call.time.plus(call.duration_seconds.duration())));
    let whose = call.pod.as_deref().or(call.id.as_deref()).unwrap_or_default();
    writeln!(
        out,
        "<rect class=\"call {}\" x=\"{from:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{}\"><title>{} {} {} ({})</title></rect>",
        call.outcome,
        top + row as f64 * ROW,
        (to - from).max(1.5),
        ROW - 3.0,
        html(&call.rpc),
        html(whose),
        super::words::took(call.duration_seconds.duration()),
        call.outcome
    )
}

fn said<'a>(value: &'a serde_json::Value, path: &str) -> &'a str {
    value.pointer(path).and_then(serde_json::Value::as_str).unwrap_or_default()
}

fn tick(out: &mut dyn Write, event: &serde_json::Value, y: f64, scale: &DrawingScale) -> io::Result<()> {
    let Some(time) = event.get("time").and_then(|time| Wall::deserialize(time).ok()) else { return Ok(()) };
    writeln!(
        out,
        "<rect class=\"event {}\" x=\"{:.2}\" y=\"{y:.2}\" width=\"1.5\" height=\"{}\"><title>{} {}/{} {}</title></rect>",
        html(said(event, "/type")),
        scale.x(time),
        2.0 * ROW,
        html(said(event, "/type")),
        html(said(event, "/pod/namespace")),
        html(said(event, "/pod/name")),
        html(said(event, "/name"))
    )
}

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
            write!(out, "<td>{}</td>", html(&cell))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table>")?;
    if left_out > 0 {
        writeln!(out, "<p>{left_out} more are left out.</p>")?;
    }
    writeln!(out, "</section>")
}

fn calls(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.calls.iter().map(|call| {
        let whose = call.pod.clone().or_else(|| call.id.clone()).unwrap_or_default();
        let took = super::words::took(call.duration_seconds.duration());
        let said = call.message.clone().unwrap_or_default();
        vec![brief(call.time), call.rpc.clone(), whose, took, call.outcome.to_owned(), said]
    });
    let headers = ["Time", "Call", "Whose", "Took", "Outcome", "Messages"];
    table(out, "Calls that were slow, failed or hung", &headers, rows, report.calls_left_out)
}

fn events(report: &CaptureReport, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.events.iter().map(|event| {
        let text = |path: &str| said(event, path).to_owned();
        let pod = format!("{}/{}", said(event, "/pod/namespace"), said(event, "/pod/name"));
        vec![brief(text("/time")), pod, text("/name"), text("/type"), text("/from"), text("/to")]
    });
    let headers = ["Time", "Pod", "Container", "Event", "From", "To"];
    table(out, "Pod events", &headers, rows, report.events_left_out)?;
    match super::capture::not_judged(report) {
        Some(line) => writeln!(out, "<p>{}</p>", html(&line)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_reorder_or_hide_the_page() {
        for letter in ['\u{200f}', '\u{61c}', '\u{2028}', '\u{feff}', '\u{202e}', '\u{200b}'] {
            assert_eq!(html(&format!("a{letter}é")), format!("a{}é", letter.escape_unicode()));
        }
    }

    #[test]
    fn text_from_outside_is_no_markup() {
        assert_eq!(html("<script>\"'&"), "&lt;script&gt;&quot;&#39;&amp;");
        assert_eq!(html("a\u{1b}[31m\u{202e}b"), "a\\u{1b}[31m\\u{202e}b");
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
        for said in [
            "<h2>Inside the runtime</h2>",
            "<h3>7 goroutines wait for &lt;mutex&gt;</h3><p>2026-11-22T03:00:00.000000000Z</p>",
            "<pre>G02 a lock is held (certain)\n  goroutine 12 holds it &amp; waits</pre>",
        ] {
            assert!(page.contains(said), "{said}");
        }
    }

    #[test]
    fn the_age_grows_from_the_recorders_start_while_no_relist_has_succeeded() {
        let mut out = Vec::new();
        page(&super::super::capture::tests::hung_at_once(), &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        for drawn in [
            r#"<polyline class="age" points="0.00,268.00 1000.00,148.00">"#,
            r#"<polyline class="latency" points="0.50,134.00 1000.00,14.00">"#,
            r#"<rect class="none-yet" x="0.00" y="148" width="1000.00" height="120">"#,
            "<li>no relist succeeded from ",
            "on an amber background",
        ] {
            assert!(page.contains(drawn), "{drawn}");
        }
    }

    #[test]
    fn the_age_falls_when_the_lists_are_answered_and_grows_on_while_a_status_hangs() {
        let mut report = super::super::capture::tests::hung_at_once();
        let hung = &mut report.relists[0];
        hung.listed_seconds = Some(std::time::Duration::from_millis(1_900).into());
        hung.age_at_least = false;
        let mut out = Vec::new();
        page(&report, &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        // Two seconds after the start, and a tenth of a second less from there on.
        let drawn = r#"<polyline class="age" points="0.00,268.00 10.00,266.80 10.00,266.86 1000.00,148.00">"#;
        assert!(page.contains(drawn), "{page}");
        for untrue in [r#"class="none-yet""#, "succeeded from", "on an amber background"] {
            assert!(!page.contains(untrue), "{untrue}");
        }
    }

    #[test]
    fn thinning_keeps_peaks() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|x| (f64::from(x), 1.0)).collect();
        points[7777].1 = 99.0;
        let thin = thinned(&points);
        assert!(thin.len() <= MOST_POINTS);
        assert!(thin.iter().any(|(_, value)| *value > 98.0));
    }
}
