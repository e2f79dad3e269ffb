//! Tests of every screen of every scenario in real terminals of tmux, with 80 columns by 24 lines and 120 by 40.
//! Without tmux these tests are skipped with a message; with `CI=true` they fail instead.

use std::fs;
use std::time::Duration;

use plegctl_engine::diagnosis::report::RuleId;
use plegctl_engine::sim::{self, Scenario};

use crate::support::plegctl::{Invocation, Output, plegctl};
use crate::support::socket::TempDir;

/// Columns and lines.
const SIZES: [(usize, usize); 2] = [(80, 24), (120, 40)];

/// The limits for a screen, however large the terminal is.
const LARGEST: (usize, usize) = (100, 24);

/// The time limit of one tmux command. One command waits until plegctl ends. A debug build on a busy machine is slow,
/// and one scenario has fifty thousand containers.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Whether tmux is available.
fn has_tmux() -> bool {
    if std::process::Command::new("tmux").arg("-V").output().is_ok() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "tmux is needed where CI=true");
    eprintln!("skipped: tmux is not installed");
    false
}

/// A terminal in which a program has run to its end.
struct Terminal {
    folder: TempDir,
    columns: usize,
}

impl Terminal {
    /// Runs plegctl with these arguments to its end in a terminal of this size.
    fn after(arguments: &[&str], (columns, lines): (usize, usize)) -> Self {
        let folder = TempDir::new();
        let terminal = Self { folder, columns };
        let words: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
        // `sleep` keeps the terminal open without a prompt, so that the screen shows only plegctl's output.
        let script = format!(
            "{} '{}' {}\necho $? > '{}'\ntmux wait-for -S over\nexec sleep 3600\n",
            // plegctl waits for a silent call until a time limit. In scenarios with a hang, this setting divides the
            // limit by 5 to save time. A large node answers slowly and needs the real limit.
            if words.iter().any(|word| word.starts_with("sim:hung-")) {
                "PLEGCTL_TEST_SILENCE_DIVISOR=5"
            } else {
                ""
            },
            env!("CARGO_BIN_EXE_plegctl"),
            words.join(" "),
            terminal.folder.path().join("status").display()
        );
        let path = terminal.folder.path().join("script");
        fs::write(&path, script).unwrap();
        let (x, y) = (columns.to_string(), lines.to_string());
        let run = format!("exec sh '{}'", path.display());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &x, "-y", &y, &run]);
        terminal.tmux(&["wait-for", "over"]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let output = Invocation::program("tmux", &[&["-u", "-L", "screens"], arguments].concat())
            .env("TMUX_TMPDIR", self.folder.path())
            .env("LANG", "C.UTF-8")
            // Some users have a login shell that runs nothing.
            .env("SHELL", "/bin/sh")
            .time_limit(TIME_LIMIT)
            .run();
        assert_eq!(output.code, Some(0), "{output}");
        output
    }

    /// Returns the visible screen.
    fn seen(&self) -> Vec<String> {
        lines(&self.tmux(&["capture-pane", "-p"]))
    }

    /// Returns all output, including lines that have scrolled away; wrapped lines are joined.
    fn written(&self) -> Vec<String> {
        lines(&self.tmux(&["capture-pane", "-p", "-J", "-S", "-"]))
    }

    fn status(&self) -> String {
        fs::read_to_string(self.folder.path().join("status")).unwrap().trim().to_owned()
    }

    /// Asserts that no line was wrapped.
    fn assert_fits(&self, what: &str, width: usize) {
        for line in self.written() {
            let length = line.trim_end().chars().count();
            assert!(length <= width.min(self.columns), "{what}: {length} columns: {line}");
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Invocation::program("tmux", &["-L", "screens", "kill-server"])
            .env("TMUX_TMPDIR", self.folder.path())
            .run();
    }
}

/// Returns the lines of an output without the empty lines at its end.
fn lines(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = output.stdout.lines().map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// Creates one test for each scenario. The tests run at the same time, and each failure has the name of its scenario.
macro_rules! screens {
    ($($test:ident: $scenario:literal,)*) => {
        mod one_screen_with_its_verdict {
            $(#[test]
            fn $test() {
                super::health_screens($scenario);
            })*
        }
    };
}

plegctl_engine::each_scenario!(screens);

/// Checks the verdict and the rule in the output of `health` for a scenario.
#[track_caller]
fn assert_verdict(scenario: &Scenario, output: &[String], status: &str, what: &str) {
    let verdict = scenario.verdict.unwrap().to_uppercase();
    // On a busy machine, a healthy node may be slow.
    let has_verdict =
        |line: &String| line.starts_with(&verdict) || (verdict == "HEALTHY" && line.starts_with("DEGRADED"));
    assert!(output.first().is_some_and(has_verdict), "{what}: {verdict} is expected: {output:#?}");
    let has_line = |start: &str| output.iter().any(|line| line.starts_with(start));
    // On a busy machine, each status call of thousands may be so slow that this comes first.
    let is_named = |id: &String| {
        let is_slow = has_line(&format!("why: {} ", RuleId::SlowStatuses)) && has_line(&format!("  {id} "));
        has_line(&format!("why: {id} ")) || is_slow
    };
    let finds = scenario.finds.as_ref().filter(|_| verdict != "HEALTHY");
    assert!(finds.is_none_or(is_named), "{what}: {finds:?} in {output:#?}");
    assert_eq!(status, if verdict == "UNHEALTHY" { "1" } else { "0" }, "{what}");
}

/// Checks the verdict, the size and the exit status of `health` for a scenario in each terminal, or only its output without tmux.
fn health_screens(name: &str) {
    let scenario = sim::load(name).unwrap();
    let folder = TempDir::new();
    let saved = folder.path().join("report.json").display().to_string();
    let endpoint = format!("sim:{name}");
    // Runs once and shows the report twice, because the report does not depend on the terminal.
    let arguments = ["health", "-r", &endpoint, "--at", "0s", "--budget", "10m", "--save", &saved];
    if !has_tmux() {
        let output = Invocation::new(&arguments).time_limit(TIME_LIMIT).run();
        return assert_verdict(&scenario, &lines(&output), &output.code.unwrap().to_string(), name);
    }
    let mut counts = Vec::new();
    for (number, size) in SIZES.into_iter().enumerate() {
        let terminal = if number == 0 {
            Terminal::after(&arguments, size)
        } else {
            Terminal::after(&["health", "--from", &saved], size)
        };
        let what = format!("{name} in {}x{}", size.0, size.1);
        let seen = terminal.seen();
        let written = terminal.written();
        assert_eq!(seen.first(), written.first(), "{what}: {seen:#?}");
        assert_verdict(&scenario, &written, &terminal.status(), &what);
        assert!(written.len() <= LARGEST.1.min(size.1 - 1), "{what}: {} lines: {written:#?}", written.len());
        terminal.assert_fits(&what, LARGEST.0);
        counts.push(format!("{}x{}: {} lines", size.0, size.1, written.len()));
    }
    println!("{name:<18} {}", counts.join("   "));
}

#[test]
fn a_watch_shows_every_event_whole_and_ends_with_its_summary_in_sight() {
    if !has_tmux() {
        return;
    }
    for size in [(60, 15), (80, 24), (120, 40)] {
        let arguments =
            ["watch", "-r", "sim:crash-loop", "--at", "0s", "--count", "2", "--period", "50ms", "--initial"];
        let terminal = Terminal::after(&arguments, size);
        let what = format!("watch in {}x{}", size.0, size.1);
        terminal.assert_fits(&what, size.0);
        let written = terminal.written();
        let events: Vec<&String> = written.iter().filter(|line| line.contains(" → ")).collect();
        assert!(!events.is_empty(), "{what}: {written:#?}");
        for event in events {
            let ends = ["Started", "Died", "Removed", "Changed", "(not delivered)"];
            assert!(ends.iter().any(|end| event.ends_with(end)), "{what}: {event}");
            assert!(!event.contains("exited (") || event.contains(") "), "{what}: {event}");
        }
        assert!(written.iter().any(|line| line.contains(" CHANGE ")), "{what}: {written:#?}");
        assert!(
            !written.iter().any(|line| line.starts_with("PLEG ")),
            "{what}: a live line stays: {written:#?}"
        );
        let seen = terminal.seen();
        assert!(
            size.1 < 24 || seen.iter().any(|line| line.starts_with("2 relists in ")),
            "{what}: {seen:#?}"
        );
        println!("{what}: {} lines", written.len());
    }
}

#[test]
fn the_step_that_shows_missed_events_is_on_the_smallest_screen() {
    if !has_tmux() {
        return;
    }
    let terminal = Terminal::after(&["health", "-r", "sim:missed-events", "--at", "0s"], SIZES[0]);
    let seen = terminal.seen();
    let step = "  if pod states are late or wrong: whether events get lost (until Ctrl-C):\n    plegctl watch --mode compare\n";
    assert!(seen.join("\n").contains(step), "{seen:#?}");
}

#[test]
fn compare_mode_prints_its_sentence_first_and_completely() {
    if !has_tmux() {
        return;
    }
    let arguments = ["watch", "--mode", "compare", "-r", "sim:quiet", "--at", "0s", "--count", "2"];
    let terminal = Terminal::after(&arguments, SIZES[0]);
    terminal.assert_fits("compare", 80);
    let text = terminal.written().join(" ");
    let (sentence, summary) = (text.find("EventedPLEG would"), text.find(" relists in "));
    assert!(sentence.is_some() && sentence < summary, "{text}");
}

#[test]
fn without_a_terminal_the_output_has_the_default_width() {
    let output = plegctl(&["health", "-r", "sim:stale-kubelet", "--at", "0s"]);
    assert!(output.stdout.lines().count() <= LARGEST.1, "{output}");
    assert!(output.stdout.lines().all(|line| line.chars().count() <= LARGEST.0), "{output}");
}
