//! Reads from the journal how the last processes of the kubelet ended. A kubelet that cannot start exits at once, is
//! started again, and logs a reason each time.

use serde::{Deserialize, Serialize};

use crate::clock::Wall;
use crate::diagnosis::journal_line::logged_by;
use crate::manifests::preflight::{continues, exit_reason};
use crate::report::Rename;

/// The most processes that are kept. A kubelet that exits at once is started about ninety times in 15 minutes.
const MAX_RUNS: usize = 200;

/// The most characters of a reason that are kept.
const MAX_REASON_LENGTH: usize = 500;

/// What systemd logs of the unit when its process has ended.
const ENDS: [&str; 2] = ["Main process exited", "Deactivated successfully"];

/// One process of the kubelet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Refusal(reason))]
#[serde(rename_all = "camelCase", default)]
struct KubeletRun {
    pid: u32,
    /// The time of its first line.
    began: Option<Wall>,
    /// The time at which systemd logged its end.
    ended: Option<Wall>,
    /// Whether the process logged that it has started.
    has_started: bool,
    /// The message with which the process exited.
    reason: Option<String>,
    /// Whether the reason is in the next line.
    continues: bool,
}

/// The processes of the kubelet in the journal, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
pub struct KubeletRuns(Vec<KubeletRun>);

/// Why the kubelet exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletExit<'a> {
    /// The kubelet's message.
    pub reason: &'a str,
    /// The number of the last consecutive processes that exited with a reason.
    pub count: usize,
    /// When the first of them began.
    since: Option<Wall>,
}

impl KubeletRuns {
    /// Adds a line of `journalctl --output=short-unix` with its time.
    pub fn add(&mut self, line: &str, time: Option<Wall>) {
        let Some((pid, message)) = logged_by(line, "kubelet") else {
            let is_end = |message: &str| {
                message.starts_with("kubelet.service: ") && ENDS.iter().any(|end| message.contains(end))
            };
            if let (Some(run), true) =
                (self.0.last_mut(), logged_by(line, "systemd").is_some_and(|(_, message)| is_end(message)))
            {
                run.ended = time;
            }
            return;
        };
        if self.0.last().is_none_or(|run| run.pid != pid) {
            if self.0.len() >= MAX_RUNS {
                self.0.remove(0);
            }
            self.0.push(KubeletRun { pid, began: time, ..KubeletRun::default() });
        }
        let Some(run) = self.0.last_mut() else { return };
        run.has_started |= message.contains("\"Started kubelet\"");
        if run.continues {
            run.continues = false;
            run.reason = Some(message.trim().chars().take(MAX_REASON_LENGTH).collect());
        } else if let Some(reason) = exit_reason(message) {
            run.continues = continues(&reason);
            run.reason = (!run.continues).then(|| reason.chars().take(MAX_REASON_LENGTH).collect());
        }
    }

    /// Returns why the last process exited. A process that is just starting has no reason yet, so the process before it
    /// counts. `None` if the last process started, or ended without a reason.
    pub fn last_exit(&self) -> Option<KubeletExit<'_>> {
        let is_starting = |run: &&KubeletRun| run.reason.is_none() && !run.has_started;
        let starting = usize::from(self.0.last().as_ref().is_some_and(is_starting));
        let ended = || self.0.iter().rev().skip(starting);
        let reason = ended().next()?.reason.as_deref()?;
        let failed = ended().take_while(|run| run.reason.is_some());
        let (count, since) = failed.fold((0, None), |(count, _), run| (count + 1, run.began));
        Some(KubeletExit { reason, count, since })
    }

    /// Returns since when no kubelet has worked, if the last process has ended or failed to start: the start of the first of the
    /// processes that failed in a row, else the end of the last process.
    pub fn none_works_since(&self) -> Option<Wall> {
        self.last_exit().and_then(|exit| exit.since).or_else(|| self.0.last()?.ended)
    }

    /// Returns whether the process `pid` logged that it has started.
    pub fn has_started(&self, pid: u32) -> bool {
        self.0.iter().any(|run| run.pid == pid && run.has_started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(lines: &[(u32, &str)]) -> KubeletRuns {
        let mut runs = KubeletRuns::default();
        for (pid, message) in lines {
            runs.add(&format!("1700000000.1 n1 kubelet[{pid}]: {message}"), None);
        }
        runs
    }

    const FAILS: &str = "E1122 18:00:00.1 7 run.go:72] \"command failed\" err=\"failed to parse kubelet flag: unknown flag: --x\"";
    const STARTS: &str = "I1122 18:00:00.1 7 server.go:1] \"Started kubelet\" hostname=\"n1\"";
    const LOGS: &str = "I1122 18:00:00.1 7 flags.go:64] FLAG: --v=2";

    #[test]
    fn only_an_exit_of_the_last_process_counts() {
        let exits = runs(&[(10, FAILS), (11, LOGS), (11, FAILS)]);
        let exit = exits.last_exit().unwrap();
        assert_eq!((exit.reason, exit.count), ("failed to parse kubelet flag: unknown flag: --x", 2));
        assert_eq!(runs(&[(10, FAILS), (11, LOGS), (11, STARTS), (11, LOGS)]).last_exit(), None);
        assert_eq!(runs(&[(10, STARTS), (10, LOGS)]).last_exit(), None);
        assert_eq!(runs(&[]).last_exit(), None);
        assert_eq!(KubeletRuns::default().last_exit(), None);
    }

    #[test]
    fn a_process_that_is_just_starting_does_not_hide_the_exit_before_it() {
        let exits = runs(&[(10, FAILS), (11, FAILS), (12, LOGS)]);
        assert_eq!(exits.last_exit().unwrap().count, 2);
        assert!(!exits.has_started(12));
        assert!(runs(&[(12, STARTS)]).has_started(12));
    }

    /// Lines of a kubelet 1.36.2 with a flag that it does not know, and of systemd 252.
    #[test]
    fn no_kubelet_works_since_the_first_of_the_failing_processes_or_since_the_end_of_the_last() {
        let since = |lines: &[(u64, &str)]| {
            let mut runs = KubeletRuns::default();
            for (at, line) in lines {
                let time = Wall::from_nanos(0).plus(std::time::Duration::from_secs(*at));
                runs.add(&format!("{at}.0 n1 {line}"), Some(time));
            }
            runs.none_works_since().map(|at| at.nanos() / 1_000_000_000)
        };
        let (works, fails) = (format!("kubelet[1]: {LOGS}"), |pid: u32| format!("kubelet[{pid}]: {FAILS}"));
        let lines = [works.as_str(), &fails(2), &fails(3), &fails(4)];
        assert_eq!(since(&[(10, lines[0])]), None);
        assert_eq!(since(&[(10, lines[0]), (20, lines[1])]), Some(20));
        assert_eq!(since(&[(10, lines[0]), (20, lines[1]), (30, lines[2]), (40, lines[3])]), Some(20));
        let stops = "systemd[1]: kubelet.service: Deactivated successfully.";
        assert_eq!(since(&[(10, lines[0]), (15, "systemd[1]: Started kubelet.service.")]), None);
        assert_eq!(since(&[(10, lines[0]), (15, stops)]), Some(15));
        assert_eq!(
            since(&[(10, lines[0]), (15, stops), (17, "kubelet[9]: I1122 18:00:00.1 FLAG: --v=2")]),
            None
        );
    }

    #[test]
    fn a_fault_after_the_start_is_a_reason_too() {
        let late = "E1122 18:00:01.1 7 kubelet.go:1822] \"Failed to start cAdvisor\" err=\"inotify_init: too many open files\"";
        let exits = runs(&[(10, STARTS), (10, late)]);
        assert_eq!(exits.last_exit().unwrap().reason, "inotify_init: too many open files");
    }

    #[test]
    fn a_reason_with_line_breaks_is_in_the_next_line() {
        let exits = runs(&[
            (10, "E1122 18:00:00.1 7 run.go:72] \"command failed\" err=<"),
            (
                10,
                "        failed to validate kubelet flags: unknown 'kubernetes.io' or 'k8s.io' labels specified with \
                  --node-labels: [kubernetes.io/foo]",
            ),
            (10, "        --node-labels in the 'kubernetes.io' namespace must begin with an allowed prefix"),
            (10, " >"),
        ]);
        assert!(exits.last_exit().unwrap().reason.starts_with("failed to validate kubelet flags: unknown"));
    }

    #[test]
    fn only_the_last_processes_are_kept() {
        let mut exits = KubeletRuns::default();
        for pid in 0..1000 {
            exits.add(&format!("1.0 n kubelet[{pid}]: {FAILS}"), None);
        }
        assert_eq!(exits.last_exit().unwrap().count, MAX_RUNS);
    }
}
