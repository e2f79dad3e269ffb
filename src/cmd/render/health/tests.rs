//! Tests the screen for terminals of different sizes, with reports of scripted runtimes.

use super::*;
use crate::cmd::render::PLAIN;
use crate::cmd::render::page::tests::printed;
use crate::cri::Rpc;
use crate::diagnosis::report::{KubeletReport, RuleId};
use crate::diagnosis::{gather, judge};
use crate::scripted::{Behaviour, Scripted, container_id, inputs, sandbox_id};

async fn report(script: Scripted) -> HealthReport {
    judge(&gather(&inputs(script), &|_| ()).await)
}

fn shown(report: &HealthReport, style: ScreenStyle) -> String {
    printed(PLAIN, |page| screen(report, page, style))
}

fn refused() -> crate::cri::Error {
    crate::cri::Error::Refused { endpoint: "unix:///run/test.sock".into() }
}

/// Returns reports of different faults.
async fn all() -> Vec<HealthReport> {
    let mut many = Scripted::with_pods(60);
    for pod in 0..8 {
        many = many.on_id(container_id(pod), Behaviour::Hangs);
    }
    vec![
        report(Scripted::with_pods(3)).await,
        report(many).await,
        report(Scripted::with_pods(5).on_id(sandbox_id(1), Behaviour::Hangs)).await,
        report(Scripted::with_pods(5).on(Rpc::ListContainers, Behaviour::Hangs)).await,
        report(Scripted::with_pods(5).on(Rpc::Version, Behaviour::Hangs)).await,
        report(Scripted::with_pods(5).on(Rpc::Version, Behaviour::Fails(refused()))).await,
    ]
}

#[tokio::test(start_paused = true)]
async fn a_screen_has_24_lines_of_100_columns_and_fits_the_terminal() {
    for mut report in all().await {
        for findings in [1, 40] {
            report.primary.as_mut().unwrap().evidence = vec!["word ".repeat(50); findings];
            for terminal in [None, Some((24, 80)), Some((40, 120)), Some((12, 40)), Some((2, 5))] {
                let (lines, columns) = match terminal {
                    None | Some((40, 120)) => (24, 100),
                    Some((24, 80)) => (23, 80),
                    _ => (24, 40),
                };
                let text = shown(&report, ScreenStyle { terminal, ..ScreenStyle::default() });
                assert!(text.lines().count() <= lines, "{terminal:?}:\n{text}");
                assert!(text.lines().all(|line| line.chars().count() <= columns), "{terminal:?}:\n{text}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_line_has_the_verdict_and_the_culprit() {
    let hung = Scripted::with_pods(9)
        .on_id(container_id(1), Behaviour::Hangs)
        .on_id(container_id(2), Behaviour::Hangs);
    let report = report(hung).await;
    let text = shown(&report, ScreenStyle::default());
    let begins = "UNHEALTHY  ContainerStatus of default/web-1/app and default/web-2/app do not answer:\n  NotReady at the latest at ";
    assert!(text.starts_with(begins) && text.lines().nth(3).unwrap().contains(" UTC in "), "{text}");
    let why = "\nwhy: D01 certain (the symptom; its cause is not proven)\n";
    let places: Vec<usize> = ["UNHEALTHY", why, "\nkeep before any change\n", "\nthen do\n", "with -o wide"]
        .iter()
        .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} in\n{text}")))
        .collect();
    assert!(places.is_sorted(), "{text}");
    // One step for both pods, and the mildest change before the last resort.
    let steps = ["for i in c000", "STAT T", "delete pod web-1 web-2 --wait=false\n", "last resort, "];
    let places: Vec<usize> =
        steps.iter().map(|step| text.find(step).unwrap_or_else(|| panic!("{step} in\n{text}"))).collect();
    assert!(places.is_sorted(), "{text}");
    let first = text.split("\nthen do\n").nth(1).unwrap();
    assert!(first.starts_with("  the processes of these containers and their shims:\n"), "{text}");
    assert!(
        first.contains("for i in c00000000000 ") && first.contains(" a00000000000"),
        "the shim has the sandbox's id: {text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_healthy_verdict_says_first_what_was_not_looked_at() {
    let report = report(Scripted::with_pods(3)).await;
    let text = shown(&report, ScreenStyle { terminal: Some((24, 80)), ..ScreenStyle::default() });
    assert!(
        text.starts_with("HEALTHY (kubelet and events not looked at)  all calls are answered; a relist"),
        "{text}"
    );
    assert!(text.contains("\nthe runtime answers now; if something is wrong\n"), "{text}");
    let all = text.replace("\n      ", " ");
    assert!(all.contains("the runtime's event stream\n"), "no run of health reads it: {text}");
    let steps = [
        "  after an alert, first look at the kubelet too: plegctl health --node ",
        "  if it was NotReady before:\n    journalctl --no-pager -u kubelet -S -6h | grep -e 'PLEG is not healthy'\n",
        "  if it comes and goes (waits, then says why): plegctl watch --until-slow 2s\n",
        "  if pod states are late or wrong: whether events get lost (until Ctrl-C):\n    plegctl watch --mode compare\n",
    ];
    let places: Vec<usize> =
        steps.iter().map(|step| text.find(step).unwrap_or_else(|| panic!("{step} in\n{text}"))).collect();
    assert!(places.is_sorted(), "{text}");
}

#[tokio::test(start_paused = true)]
async fn only_a_container_that_is_restarted_every_few_minutes_is_in_a_crash_loop() {
    let mut script = Scripted::with_pods(3);
    let minute = 60_000_000_000;
    let now = script.now;
    script.containers[1].metadata.as_mut().unwrap().attempt = 12;
    script.containers[1].created_at = now - 3 * minute;
    let text = shown(&report(script.same_node()).await, ScreenStyle::default());
    assert!(
        text.contains("  default/web-1/app crashes again and again: restarted 12 times, last 3m"),
        "{text}"
    );
    // The pod is 30 days old.
    script.sandboxes[1].created_at = now - 30 * 24 * 60 * minute;
    let text = shown(&report(script.same_node()).await, ScreenStyle::default());
    assert!(text.contains("  default/web-1/app was restarted 12 times, last 3m"), "{text}");
    script.sandboxes[1].created_at = now - 60 * minute;
    script.containers[1].created_at = now - 20 * minute;
    let text = shown(&report(script.same_node()).await, ScreenStyle::default());
    assert!(text.contains("  default/web-1/app was restarted 12 times, last 20m"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_time_from_which_pods_are_marked_for_deletion_is_given_once_it_has_come() {
    let mut report = report(Scripted::with_pods(5).on(Rpc::Version, Behaviour::Fails(refused()))).await;
    let impact = |report: &HealthReport| {
        let text = shown(report, ScreenStyle { terminal: Some((24, 80)), ..ScreenStyle::default() });
        text.lines().find(|line| line.starts_with("impact: ")).unwrap().to_owned()
    };
    let before = "impact: pods run on; none starts or ends; marked for deletion 5m after NotReady";
    assert_eq!(impact(&report), before);
    let estimate = report.estimate.as_mut().unwrap();
    (estimate.not_ready_at, estimate.not_ready_since) =
        (None, Some(report.taken_at.minus(Duration::from_secs(290))));
    assert_eq!(impact(&report), before);
    let since = report.taken_at.minus(Duration::from_secs(400));
    report.estimate.as_mut().unwrap().not_ready_since = Some(since);
    let from = since.plus(Duration::from_secs(300)).time_of_day(report.taken_at);
    assert_eq!(
        impact(&report),
        format!("impact: pods run on; none starts or ends; marked for deletion from {from}")
    );
}

#[tokio::test(start_paused = true)]
async fn what_to_keep_is_urgent_only_if_it_is_more_than_the_logs() {
    let mut report = report(Scripted::with_pods(5).on_id(container_id(1), Behaviour::Hangs)).await;
    assert!(shown(&report, ScreenStyle::default()).contains("\nkeep before any change\n"));
    // The logs are kept in any case.
    report.keep.truncate(1);
    for wide in [false, true] {
        let text = shown(&report, ScreenStyle { wide, ..ScreenStyle::default() });
        assert!(text.contains("\nkeep for later\n") && !text.contains("restart\n"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn possible_findings_are_shown_under_also_if_there_is_room() {
    let mut report = report(Scripted::with_pods(3)).await;
    let mut possible = report.primary.clone().unwrap();
    (possible.id, possible.confidence) =
        (RuleId::ExhaustedLimits, crate::diagnosis::report::Confidence::Possible);
    possible.title = "the shim may be stopped".into();
    report.findings.extend([possible.clone(), possible.clone()]);
    let text = shown(&report, ScreenStyle::default());
    assert!(text.contains("\nalso\n  D14 possible: the shim may be stopped (and 1 more)\n"), "{text}");
    report.primary.as_mut().unwrap().evidence = vec!["word".into(); 30];
    report.primary.as_mut().unwrap().steps = vec![Step::look("word"); 30];
    report.keep = vec![Step::look("word"); 30];
    let text = shown(&report, ScreenStyle { terminal: Some((18, 100)), ..ScreenStyle::default() });
    assert!(!text.contains("also\n") && text.contains("more lines of this"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_notready_is_not_broken_over_two_lines() {
    let mut report = report(Scripted::with_pods(3)).await;
    let time = "NotReady at the latest at 22:34:51 UTC (in 2m47s)";
    report.summary = format!("a title that is as long as it takes to fill the line of a terminal: {time}");
    for columns in 60..100 {
        let text = shown(&report, ScreenStyle { terminal: Some((24, columns)), ..ScreenStyle::default() });
        assert!(text.lines().any(|line| line.contains(time)), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_line_of_the_time_and_the_names_is_wrapped_and_not_cut() {
    let mut report = report(Scripted::with_pods(3)).await;
    report.node = "ip-10-0-17-44.eu-central-1.compute.internal".into();
    let text = shown(&report, ScreenStyle { terminal: Some((24, 60)), ..ScreenStyle::default() });
    assert!(text.lines().nth(2).unwrap().contains(" UTC in "), "{text}");
    for name in [&report.node, &report.runtime.endpoint] {
        assert!(text.lines().any(|line| line.contains(name.as_str())), "{name}: {text}");
    }
    assert!(!text.contains('…'), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_verdict_is_repeated_at_the_end_if_the_text_is_longer_than_the_screen() {
    let report = report(Scripted::with_pods(5).on_id(container_id(1), Behaviour::Hangs)).await;
    let style = ScreenStyle { wide: true, terminal: Some((24, 100)), ..ScreenStyle::default() };
    let text = shown(&report, style);
    assert!(text.lines().count() > 24, "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.get(..2), lines.get(lines.len() - 2..), "{text}");
    let tall = shown(&report, ScreenStyle { terminal: Some((200, 100)), ..style });
    assert_eq!(tall.matches("DEGRADED").count(), 1, "{tall}");
}

#[tokio::test(start_paused = true)]
async fn a_step_is_shown_whole_or_not_at_all() {
    let mut report = report(Scripted::with_pods(5).on_id(container_id(1), Behaviour::Hangs)).await;
    let primary = report.primary.as_mut().unwrap();
    let step = |number| Step::look(format!("step {number} {} ends", "word ".repeat(20)));
    primary.steps = (0..20).map(step).collect();
    let text = shown(&report, ScreenStyle { terminal: Some((24, 80)), ..ScreenStyle::default() });
    let begun = text.matches("  step ").count();
    assert!(begun > 0 && begun < 20 && text.matches(" ends\n").count() == begun, "{text}");
    assert!(text.contains(" more lines of this"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_healthy_report_names_all_that_was_not_checked_and_another_one_the_most_important_in_its_footer() {
    let mut report = report(Scripted::with_pods(1)).await;
    let skipped = |what: &str| NotChecked { what: what.into(), why: "left out".into() };
    report.not_checked = vec![skipped("the kubelet's /healthz"), skipped("processes, pressure and limits")];
    let text = shown(&report, ScreenStyle::default());
    assert!(text.contains("\n  not looked at: the kubelet's /healthz, processes\n"), "{text}");
    assert!(!text.contains("what was not checked"), "{text}");
    report.verdict = Verdict::Degraded;
    let text = shown(&report, ScreenStyle::default());
    assert!(text.contains("what was not checked (processes and 1 more)"), "{text}");
    report.not_checked.truncate(1);
    let text = shown(&report, ScreenStyle::default());
    assert!(text.contains("what was not checked (the kubelet's /healthz)"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_saved_report_says_so_and_how_old_it_is() {
    let report = report(Scripted::with_pods(1)).await;
    let style = ScreenStyle { saved: Some(Duration::from_secs(11_520)), ..ScreenStyle::default() };
    assert!(shown(&report, style).lines().nth(1).unwrap().starts_with("SAVED 3h12m ago, "));
}

#[tokio::test(start_paused = true)]
async fn disagreements_are_on_the_screen() {
    let mut report = report(Scripted::with_pods(1)).await;
    report.kubelet =
        Some(KubeletReport { disagreements: vec!["it says one thing".into()], ..KubeletReport::default() });
    assert!(shown(&report, ScreenStyle::default()).contains("it says one thing"));
}

#[tokio::test(start_paused = true)]
async fn hostile_names_do_not_reach_the_terminal() {
    let mut script = Scripted::with_pods(2).on_id(container_id(1), Behaviour::Hangs);
    script.containers[1].metadata.as_mut().unwrap().name = "app\u{1b}[2J".into();
    let report = report(script).await;
    for wide in [false, true] {
        assert!(!shown(&report, ScreenStyle { wide, ..ScreenStyle::default() }).contains('\u{1b}'));
    }
    assert!(!npd(&report, None).contains('\u{1b}'));
}

#[tokio::test(start_paused = true)]
async fn npd_has_80_ascii_bytes_and_says_likely() {
    let mut inputs = inputs(Scripted::with_pods(143).on_id(container_id(42), Behaviour::Hangs));
    inputs.budget = Duration::from_secs(4);
    let mut report = judge(&gather(&inputs, &|_| ()).await);
    assert_eq!(npd(&report, None), "D01 degraded, PLEG works: likely status hang default/web-42/app");
    report.primary.as_mut().unwrap().pod.as_mut().unwrap().name = "ä".repeat(200);
    let line = npd(&report, None);
    assert!(line.is_ascii() && line.len() <= 80, "{line}");
    assert_eq!(report.primary.unwrap().id, RuleId::HungStatus);
}

#[tokio::test(start_paused = true)]
async fn the_moment_of_a_capture_is_on_the_second_line() {
    let mut report = judge(&gather(&inputs(Scripted::with_pods(3)), &|_| ()).await);
    let at = crate::clock::Wall::from_nanos(1_700_000_000_123_000_000);
    report.moment = Some(crate::diagnosis::report::JudgedMoment { time: at, incident: Some(2) });
    let text = shown(&report, ScreenStyle::default());
    let line = text.lines().nth(1).unwrap();
    assert_eq!(line, "as it was at 2023-11-14T22:13:20.123Z, the worst moment of incident 2", "{text}");
}
