//! Tests of the model, the keys and the screens. The screens are in `screens/`, each as its text and, below it, the
//! styles of its cells; `cargo xtask write screens` updates them.

use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier};

use super::explanation;
use super::model::{EntryKind, KubeletFigures, LimitAhead, Model, Outlook};
use super::screen::{Moment, SMALLEST, draw, empty, page_height, page_lines};
use super::view::{Action, Key, Movement, Page, ReplayPosition, RowId, Rows, View};
use crate::clock::{Mono, Wall};
use crate::cmd::render::words::width;
use crate::cri::{Outcome, Rpc};
use crate::diagnosis::calls::RelistSettings;
use crate::diagnosis::forecast::LimitForecast;
use crate::diagnosis::report::{RuleId, Verdict};
use crate::kubelet::KubeletVersion;
use crate::pleg::stream::{Event, EventSource, EventSubject, EventType, Relist};
use crate::pleg::{CallRecord, OpenCall, PlegState, PodRef};
use crate::report::Confidence;

const SIZES: [(u16, u16); 4] = [(60, 15), (80, 24), (120, 40), (200, 60)];

const THRESHOLD: Duration = Duration::from_secs(180);
const TIMEOUT: Duration = Duration::from_secs(120);

/// 12:00:00 UTC.
fn noon() -> Wall {
    serde_json::from_str("\"2026-03-01T12:00:00Z\"").unwrap()
}

fn at(millis: u64) -> Moment {
    let since = Duration::from_millis(millis);
    Moment { mono: Mono::at(since), wall: noon().plus(since) }
}

fn seconds(seconds: u64) -> Moment {
    at(seconds * 1000)
}

fn pod(name: &str) -> PodRef {
    let (namespace, name) = name.split_once('/').unwrap();
    PodRef { uid: format!("uid-of-{name}"), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn model() -> Model {
    let settings = RelistSettings { timeout: TIMEOUT, threshold: THRESHOLD, ..RelistSettings::default() };
    let mut model = Model::new(Mono::default(), settings);
    model.node = Some("node-7".to_owned());
    model.runtime = "containerd 2.0.1 unix:///run/containerd/containerd.sock".to_owned();
    model
}

/// Adds a relist that ends at `end`.
fn relist(model: &mut Model, number: u64, end: Moment, took: Duration, error: Option<&str>) {
    let began = Mono::at(end.mono.since(Mono::default()).saturating_sub(took));
    model.relist_begins(began);
    let report = Relist {
        duration_seconds: took.into(),
        interval_seconds: (number > 1).then(|| Duration::from_secs(1).into()),
        pods: 112,
        containers: 187,
        error: error.map(str::to_owned),
        ..Relist::new(end.wall, number)
    };
    let last_list = if error.is_some() { model.last_list } else { Some(began) };
    model.relist_ended(&report, last_list, None, end.mono);
}

fn event(model: &mut Model, when: Moment, name: &str, from: PlegState, to: PlegState) {
    let (pod_name, container) = name.rsplit_once('/').unwrap();
    let kind = if to == PlegState::Running { EventType::ContainerStarted } else { EventType::ContainerDied };
    let mut event = Event::new(when.wall, EventSource::Generic, kind, pod(pod_name), EventSubject::Container);
    event.id = Some(id_of(container));
    event.name = Some(container.to_owned());
    event.from = Some(from);
    event.to = Some(to);
    if to == PlegState::Exited {
        event.exit_code = Some(137);
        event.reason = Some("OOMKilled".to_owned());
    }
    model.event(event);
}

fn id_of(container: &str) -> String {
    format!("{container:0<64}").replace(|letter: char| !letter.is_ascii_hexdigit(), "b")
}

fn call(model: &mut Model, when: Moment, name: &str, took: Duration, outcome: Outcome) {
    let (pod_name, container) = name.rsplit_once('/').unwrap();
    let record = CallRecord {
        rpc: Rpc::ContainerStatus.name().to_owned(),
        id: Some(id_of(container)),
        pod: Some(pod(pod_name)),
        duration_seconds: took.into(),
        response_bytes: 900,
        stream: None,
        outcome,
        code: None,
        message: None,
    };
    model.call_finished(&record, when.mono, when.wall);
}

fn open(model: &mut Model, rpc: Rpc, name: Option<&str>, since: Moment) {
    let (pod_name, container) = name.and_then(|name| name.rsplit_once('/')).unzip();
    model.relist_begins(since.mono);
    model.call_started(&OpenCall {
        rpc,
        id: container.map(id_of),
        pod: pod_name.map(pod),
        started: since.mono,
    });
}

/// Four minutes of relists, with a few changes and slow calls.
fn four_minutes() -> Model {
    let mut model = model();
    for number in 1..=240 {
        let took = match number {
            100..104 => 2400,
            170 => 740,
            number => 9 + number * 7 % 23,
        };
        relist(&mut model, number, at(number * 1000), Duration::from_millis(took), None);
    }
    for (second, name, from, to) in [
        (101, "shop/db-0/postgres", PlegState::NonExistent, PlegState::Running),
        (150, "shop/web-7d9f8c6b5-x2x4z/nginx", PlegState::Running, PlegState::Exited),
        (151, "shop/web-7d9f8c6b5-x2x4z/nginx", PlegState::Exited, PlegState::Running),
        (231, "kube-system/node-exporter-q8k2l/exporter", PlegState::Running, PlegState::Exited),
        (232, "kube-system/node-exporter-q8k2l/exporter", PlegState::Exited, PlegState::NonExistent),
    ] {
        event(&mut model, seconds(second), name, from, to);
    }
    for (second, name, millis) in [
        (101, "shop/db-0/postgres", 1900),
        (150, "shop/web-7d9f8c6b5-x2x4z/nginx", 41),
        (151, "shop/web-7d9f8c6b5-x2x4z/nginx", 12),
        (231, "kube-system/node-exporter-q8k2l/exporter", 7),
    ] {
        call(&mut model, seconds(second), name, Duration::from_millis(millis), Outcome::Ok);
    }
    model
}

/// Returns the same node with a list call that does not answer.
fn hung_list() -> (Model, Moment) {
    let mut model = four_minutes();
    open(&mut model, Rpc::ListContainers, None, seconds(241));
    model.silence(seconds(246).wall, Duration::from_secs(5));
    model.silence(seconds(251).wall, Duration::from_secs(10));
    (model, seconds(288))
}

/// Returns the text of a screen, then one line for each part in another style than the default: its line, its columns
/// and its style.
fn shown(buffer: &Buffer) -> String {
    let area = *buffer.area();
    let mut text = String::new();
    let mut styles = String::new();
    for y in 0..area.height {
        let mut line = String::new();
        let mut run: Option<(u16, u16, String)> = None;
        for x in 0..area.width {
            let cell = &buffer[(x, y)];
            line.push_str(cell.symbol());
            let mut style = format!("{:?}", cell.fg).to_lowercase();
            if cell.fg == Color::Reset {
                style.clear();
            }
            for (modifier, name) in [(Modifier::BOLD, "bold"), (Modifier::REVERSED, "reversed")] {
                if cell.modifier.contains(modifier) {
                    style = format!("{style} {name}").trim().to_owned();
                }
            }
            match &mut run {
                Some((_, end, known)) if *known == style => *end = x,
                _ => {
                    styles.push_str(&described(y, run.take()));
                    run = Some((x, x, style));
                }
            }
        }
        styles.push_str(&described(y, run));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    format!("{text}--- styles: line, columns\n{styles}")
}

fn described(y: u16, run: Option<(u16, u16, String)>) -> String {
    match run {
        Some((start, end, style)) if !style.is_empty() => format!("{y} {start}-{end} {style}\n"),
        _ => String::new(),
    }
}

fn screen(model: &Model, view: &View, moment: Moment, size: (u16, u16)) -> Buffer {
    let mut buffer = empty(size);
    draw(&mut buffer, model, view, moment);
    buffer
}

/// Compares a screen in each size with its file.
fn check(name: &str, model: &Model, view: &View, moment: Moment) {
    for (columns, lines) in SIZES {
        let shown = shown(&screen(model, view, moment, (columns, lines)));
        let file = format!("src/cmd/top/screens/{name}-{columns}x{lines}.txt");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
        if env::var_os("PLEGCTL_BLESS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &shown).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == shown, "{file} differs (`cargo xtask write screens` updates it):\n{shown}");
    }
}

fn view() -> View {
    View::new(true, false)
}

#[test]
fn a_hung_list_shows_verdict_countdown_and_pending_call_in_every_size() {
    let (model, moment) = hung_list();
    check("hung-list", &model, &view(), moment);
    for size in SIZES {
        let text = shown(&screen(&model, &view(), moment, size));
        for words in [
            "UNHEALTHY",
            "no answer for 47s",
            "(certain",
            "NotReady at the latest at 12:07:11 UTC (in 2m23s)",
        ] {
            assert!(text.contains(words), "{size:?} lacks {words}:\n{text}");
        }
    }
}

#[test]
fn a_quiet_node_is_healthy_and_shows_latency_pods_and_transitions() {
    let mut model = four_minutes();
    model.kubelet = Some(KubeletFigures {
        last_seen: Some(seconds(239).wall),
        relists: Some((1000.0, 21.5)),
        discarded: Some(0.0),
        relists_seldom: false,
        read: seconds(240).wall,
    });
    check("quiet", &model, &view(), seconds(241));
}

/// Returns a forecast for containerd's threads that is read at this moment.
fn forecast(now: Wall, hours: u64, confidence: Confidence) -> LimitForecast {
    LimitForecast::of_threads(now, Duration::from_secs(hours * 3600), confidence)
}

#[test]
fn a_limit_that_is_likely_reached_within_a_day_makes_the_node_degraded() {
    let (mut model, now) = (four_minutes(), seconds(241));
    model.limits = LimitAhead::of(&[forecast(now.wall, 18, Confidence::Likely)], now.wall);
    check("limit", &model, &view(), now);
    let judgement = model.judge(now.mono);
    assert_eq!((judgement.verdict, judgement.ids), (Verdict::Degraded, vec![RuleId::ApproachingLimit]));
    assert_eq!(judgement.title, "a hard limit is likely reached in about 18h");
    // What happens now comes before it.
    let (mut hung, later) = hung_list();
    hung.limits = model.limits;
    let judgement = hung.judge(later.mono);
    assert!(judgement.title.starts_with("no answer for"), "{}", judgement.title);
    assert_eq!(judgement.verdict, Verdict::Unhealthy);
}

#[test]
fn a_limit_that_is_only_possible_or_days_away_is_shown_and_changes_no_verdict() {
    let (mut model, now) = (four_minutes(), seconds(241));
    let healthy = model.judge(now.mono);
    for (hours, confidence) in [(18, Confidence::Possible), (30, Confidence::Likely)] {
        model.limits = LimitAhead::of(&[forecast(now.wall, hours, confidence)], now.wall);
        assert_eq!(model.judge(now.mono), healthy);
        let text = shown(&screen(&model, &view(), now, (120, 40)));
        assert!(text.contains("LIMIT  containerd[812] has 6,312 of 10,000 threads"), "{text}");
    }
}

#[test]
fn before_the_first_relist_nothing_is_claimed() {
    let judgement = model().judge(seconds(1).mono);
    assert_eq!(
        (judgement.verdict, judgement.ids, judgement.outlook),
        (Verdict::Unknown, Vec::new(), Outlook::Calm)
    );
}

#[test]
fn a_replay_shows_its_position_and_its_incidents() {
    let mut view = view();
    view.replay = Some(ReplayPosition {
        from: noon(),
        to: seconds(600).wall,
        incidents: vec![seconds(300).wall, seconds(500).wall],
        speed: "10×".to_owned(),
        ended: false,
    });
    let (model, moment) = hung_list();
    check("replay", &model, &view, moment);
}

#[test]
fn the_page_of_a_call_has_its_details_and_commands() {
    let mut model = four_minutes();
    open(&mut model, Rpc::ContainerStatus, Some("shop/db-0/postgres"), seconds(241));
    let now = seconds(260);
    let mut view = view();
    let rows = Rows::matching(&model, "", now.mono).ids();
    assert_eq!(view.key(Key::Down, &rows, 10, |_| Vec::new()), None);
    assert_eq!(view.key(Key::Enter, &rows, 10, |row| explanation::lines(&model, row, now.mono)), None);
    let Page::Text { lines, .. } = &view.page else { panic!("{:?}", view.page) };
    let id = id_of("postgres");
    for line in [
        "ContainerStatus of shop/db-0/postgres".to_owned(),
        format!("  crictl --timeout 20s inspect {id}"),
        "  kubectl -n shop describe pod db-0".to_owned(),
        "what to do".to_owned(),
    ] {
        assert!(lines.contains(&line), "{line} is not in {lines:#?}");
    }
    check("explain", &model, &view, now);
}

#[test]
fn a_silence_is_likely_a_hang_after_5_seconds_and_certain_after_10() {
    let mut model = four_minutes();
    open(&mut model, Rpc::ContainerStatus, Some("shop/db-0/postgres"), seconds(241));
    let judged = |second: u64| {
        let judgement = model.judge(seconds(second).mono);
        (judgement.ids, judgement.confidence)
    };
    assert_eq!(judged(245), (Vec::new(), None));
    assert_eq!(judged(246), (vec![RuleId::HungStatus], Some(Confidence::Likely)));
    assert_eq!(judged(251), (vec![RuleId::HungStatus], Some(Confidence::Certain)));
}

/// Lets a status call reach its time-out in a relist that began 120 s before, which then ends.
fn relist_with_a_hung_call(model: &mut Model, number: u64, end: u64) {
    open(model, Rpc::ContainerStatus, Some("shop/db-0/postgres"), seconds(end - 120));
    call(model, seconds(end), "shop/db-0/postgres", TIMEOUT, Outcome::Silent);
    let report = Relist { duration_seconds: TIMEOUT.into(), ..Relist::new(seconds(end).wall, number) };
    model.relist_ended(&report, Some(seconds(end - 120).mono), None, seconds(end).mono);
}

#[test]
fn whether_a_second_pod_hangs_is_not_known_until_the_relist_with_the_first_has_ended() {
    let mut model = four_minutes();
    open(&mut model, Rpc::ContainerStatus, Some("shop/db-0/postgres"), seconds(241));
    model.last_list = Some(seconds(241).mono);
    let judged = |model: &Model, second: u64| {
        let judgement = model.judge(seconds(second).mono);
        (judgement.verdict, judgement.outlook)
    };
    assert_eq!(judged(&model, 245), (Verdict::Healthy, Outlook::Calm));
    assert_eq!(judged(&model, 260), (Verdict::Unknown, Outlook::Unknown));
    relist_with_a_hung_call(&mut model, 241, 361);
    assert_eq!(judged(&model, 361), (Verdict::Degraded, Outlook::StaysReady));
    // The next relist makes the same call again, and the pods after it are known to be answered.
    open(&mut model, Rpc::ContainerStatus, Some("shop/db-0/postgres"), seconds(362));
    model.last_list = Some(seconds(362).mono);
    assert_eq!(judged(&model, 380), (Verdict::Degraded, Outlook::StaysReady));
}

#[test]
fn one_hung_pod_is_enough_for_a_kubelet_that_visits_it_twice() {
    let mut model = four_minutes();
    model.settings.era = KubeletVersion::parse("1.30").unwrap().era();
    open(&mut model, Rpc::ContainerStatus, Some("shop/db-0/postgres"), seconds(241));
    model.last_list = Some(seconds(241).mono);
    assert_eq!(model.judge(seconds(260).mono).verdict, Verdict::Unhealthy);
}

#[test]
fn two_hung_pods_make_the_node_unhealthy() {
    let mut model = four_minutes();
    open(&mut model, Rpc::ContainerStatus, Some("shop/db-0/postgres"), seconds(241));
    model.last_list = Some(seconds(241).mono);
    call(&mut model, seconds(361), "shop/db-0/postgres", TIMEOUT, Outcome::Silent);
    model.call_started(&OpenCall {
        rpc: Rpc::ContainerStatus,
        id: Some(id_of("nginx")),
        pod: Some(pod("shop/web-0")),
        started: seconds(361).mono,
    });
    let judgement = model.judge(seconds(380).mono);
    // The last relist began at 241 s. The kubelet's may have begun a second later, and its next report takes up to 10.4 s.
    let not_ready = Outlook::NotReady(Mono::at(Duration::from_millis((241 + 1 + 180) * 1000 + 10_400)));
    assert_eq!((judgement.verdict, judgement.outlook), (Verdict::Unhealthy, not_ready));
    let judgement = model.judge(seconds(430).mono);
    assert_eq!(judgement.outlook, not_ready, "the time does not move");
    assert_eq!(Rows::matching(&model, "", seconds(430).mono).calls.len(), 2);
}

#[test]
fn call_that_the_last_relist_gave_up_counts_as_hung_from_the_moment_at_which_it_is_made_again() {
    let mut model = four_minutes();
    relist_with_a_hung_call(&mut model, 241, 361);
    open(&mut model, Rpc::ContainerStatus, Some("shop/db-0/postgres"), seconds(362));
    model.last_list = Some(seconds(362).mono);
    let judgement = model.judge(seconds(363).mono);
    assert_eq!((judgement.verdict, judgement.confidence), (Verdict::Degraded, Some(Confidence::Certain)));
}

#[test]
fn late_call_of_an_earlier_relist_leaves_the_verdict_open_until_it_is_made_again() {
    let judged = |took, outcome, again: Option<u64>, second| {
        let mut model = four_minutes();
        model.relist_begins(seconds(239).mono);
        call(&mut model, seconds(240), "shop/db-0/postgres", Duration::from_millis(took), outcome);
        model.relist_ended(&Relist::new(seconds(240).wall, 241), None, None, seconds(240).mono);
        for later in 241..second {
            model.relist_begins(seconds(later).mono);
            if let Some(millis) = again {
                let took = Duration::from_millis(millis);
                call(&mut model, seconds(later), "shop/db-0/postgres", took, Outcome::Ok);
            }
            let report = Relist::new(seconds(later).wall, later + 1);
            model.relist_ended(&report, Some(seconds(later).mono), None, seconds(later).mono);
        }
        model.last_list = Some(seconds(second).mono);
        model.judge(seconds(second).mono).verdict
    };
    assert_eq!(judged(1999, Outcome::Ok, None, 241), Verdict::Healthy);
    assert_eq!(judged(2000, Outcome::Ok, None, 241), Verdict::Degraded);
    assert_eq!(judged(5, Outcome::Error, None, 241), Verdict::Degraded);
    assert_eq!(judged(2000, Outcome::Ok, None, 242), Verdict::Unknown);
    assert_eq!(judged(2000, Outcome::Ok, Some(4), 242), Verdict::Healthy);
    assert_eq!(judged(2000, Outcome::Ok, None, 5000), Verdict::Unknown);
}

#[test]
fn an_old_relist_of_the_kubelet_is_unhealthy_although_every_call_is_answered() {
    let mut model = four_minutes();
    model.kubelet_age = Some(THRESHOLD + Duration::from_secs(1));
    let judgement = model.judge(seconds(241).mono);
    assert_eq!(judgement.verdict, Verdict::Unhealthy);
    assert_eq!(judgement.title, "the kubelet's last relist is 3m1s old");
}

#[test]
fn a_call_that_was_given_up_is_shown_until_a_later_relist_gets_its_answer() {
    let mut model = four_minutes();
    open(&mut model, Rpc::ContainerStatus, Some("shop/db-0/postgres"), seconds(241));
    call(&mut model, seconds(361), "shop/db-0/postgres", TIMEOUT, Outcome::Silent);
    model.relist_begins(seconds(362).mono);
    assert_eq!(model.silent_calls(seconds(362).mono).len(), 1);
    call(&mut model, seconds(363), "shop/db-0/postgres", Duration::from_millis(4), Outcome::Ok);
    assert_eq!(model.silent_calls(seconds(363).mono), Vec::new());
}

#[test]
fn failing_relists_are_unhealthy_and_count_down() {
    let mut model = four_minutes();
    relist(&mut model, 241, seconds(241), Duration::from_millis(3), Some("connection refused"));
    relist(&mut model, 242, seconds(242), Duration::from_millis(3), Some("connection refused"));
    let judgement = model.judge(seconds(250).mono);
    assert_eq!(judgement.title, "relists fail: connection refused");
    assert_eq!(judgement.verdict, Verdict::Unhealthy);
    assert!(matches!(judgement.outlook, Outlook::NotReady(_)), "{judgement:?}");
    let failures = model
        .entries
        .iter()
        .filter(|entry| matches!(&entry.kind, EntryKind::Notice(_, text) if text.contains("refused")));
    assert_eq!(failures.count(), 1, "a repeated failure is one line");
}

#[test]
fn the_chart_has_gaps_where_no_relist_ended_and_the_running_relist_at_its_end() {
    let mut model = model();
    relist(&mut model, 1, seconds(10), Duration::from_millis(20), None);
    model.relist_begins(seconds(290).mono);
    let chart = model.chart(30, seconds(299).mono);
    assert_eq!(chart.iter().filter(|part| part.is_some()).count(), 2);
    assert_eq!(chart.last(), Some(&Some(Duration::from_secs(9))));
    assert_eq!(chart[1], Some(Duration::from_millis(20)));
}

#[test]
fn old_calls_and_relists_are_forgotten() {
    let mut model = four_minutes();
    assert_eq!(model.slow_pods().len(), 3);
    model.forget_old(seconds(1000).mono);
    assert_eq!(model.slow_pods(), []);
    assert_eq!(model.latency(seconds(1000).mono), None);
}

#[test]
fn hostile_names_are_escaped_in_every_part() {
    let evil = "\u{1b}[2J\u{202e}x";
    let mut model = model();
    model.node = Some(evil.to_owned());
    model.runtime = evil.to_owned();
    relist(&mut model, 1, seconds(1), Duration::from_millis(9), Some(evil));
    let name = format!("{evil}/{evil}/{evil}");
    event(&mut model, seconds(2), &name, PlegState::Running, PlegState::Exited);
    call(&mut model, seconds(2), &name, Duration::from_secs(6), Outcome::Ok);
    open(&mut model, Rpc::ContainerStatus, Some(&name), seconds(3));
    let now = seconds(20);
    for row in [None, Rows::matching(&model, "", now.mono).ids().first().cloned()] {
        let mut view = view();
        view.selected = row;
        let rows = Rows::matching(&model, "", now.mono).ids();
        let lists = shown(&screen(&model, &view, now, (200, 60)));
        view.key(Key::Enter, &rows, 10, |row| explanation::lines(&model, row, now.mono));
        let page = shown(&screen(&model, &view, now, (200, 60)));
        for text in [lists, page] {
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
            assert!(text.contains("\\u{1b}[2J"), "{text}");
        }
    }
}

#[test]
fn without_colour_only_bold_and_reversed_remain() {
    let (model, moment) = hung_list();
    let text = shown(&screen(&model, &View::new(false, false), moment, (80, 24)));
    let styles = text.split_once("--- styles").unwrap().1;
    assert!(
        !["red", "green", "yellow", "cyan", "gray"].iter().any(|color| styles.contains(color)),
        "{styles}"
    );
    assert!(text.contains("UNHEALTHY"), "{text}");
}

#[test]
fn a_terminal_that_became_too_small_says_so() {
    let (model, moment) = hung_list();
    for size in [(59, 15), (60, 14), (1, 1), (20, 3)] {
        let text = shown(&screen(&model, &view(), moment, size));
        assert!(size.0 < 20 || text.contains("is too small"), "{text}");
    }
}

#[test]
fn the_filter_hides_pods_and_transitions_but_no_pending_call() {
    let (model, moment) = hung_list();
    let mut view = view();
    let mut press = |key: Key| view.key(key, &[], 10, |_| Vec::new());
    for key in [
        Key::Char('/'),
        Key::Char('O'),
        Key::Char('o'),
        Key::Char('m'),
        Key::Char('x'),
        Key::Backspace,
        Key::Enter,
    ] {
        assert_eq!(press(key), None);
    }
    assert_eq!((view.filter.as_str(), &view.page), ("Oom", &Page::Lists));
    let rows = Rows::matching(&model, &view.filter, moment.mono);
    assert_eq!((rows.calls.len(), rows.pods.len(), rows.entries.len()), (1, 0, 2));
    let text = shown(&screen(&model, &view, moment, (80, 24)));
    assert!(text.contains("none matches the filter") && !text.contains("no status call yet"), "{text}");
    view.key(Key::Escape, &[], 10, |_| Vec::new());
    assert_eq!(view.filter, "");
}

#[test]
fn the_selection_stays_on_its_row_while_rows_arrive() {
    let mut model = four_minutes();
    let mut view = view();
    let rows = Rows::matching(&model, "", seconds(241).mono).ids();
    for _ in 0..5 {
        view.key(Key::Down, &rows, 10, |_| Vec::new());
    }
    let selected = view.selected.clone();
    assert!(matches!(selected, Some(RowId::Entry(_))), "{selected:?}");
    event(&mut model, seconds(242), "shop/new-0/new", PlegState::NonExistent, PlegState::Running);
    let rows = Rows::matching(&model, "", seconds(243).mono).ids();
    assert!(rows.contains(selected.as_ref().unwrap()));
    view.key(Key::Up, &rows, 10, |_| Vec::new());
    assert_eq!(
        view.selected.as_ref(),
        rows.get(rows.iter().position(|row| Some(row) == selected.as_ref()).unwrap() - 1)
    );
}

#[test]
fn keys_ask_for_a_bundle_a_pause_and_the_end() {
    let mut press = {
        let mut view = view();
        move |key: Key| view.key(key, &[], 10, |_| Vec::new())
    };
    assert_eq!(press(Key::Char('p')), Some(Action::Pause));
    for key in ['s', '/', 'x'] {
        assert_eq!(press(Key::Char(key)), None);
    }
    assert_eq!(press(Key::Enter), Some(Action::Bundle(Some("/x".to_owned()))));
    assert_eq!(press(Key::Char('s')), None);
    assert_eq!(press(Key::Enter), None, "without a path there is no bundle");
    assert_eq!(press(Key::Char('?')), None);
    assert_eq!(press(Key::Char('q')), None, "q closes the page first");
    assert_eq!(press(Key::Char('q')), Some(Action::Quit));
    assert_eq!(
        View::new(true, true).key(Key::Char('s'), &[], 10, |_| Vec::new()),
        Some(Action::Bundle(None))
    );
}

#[test]
fn the_help_fits_the_smallest_screen_and_breaks_no_line_of_a_usual_one() {
    let mut view = view();
    for replays in [false, true] {
        view.replay = replays.then(|| ReplayPosition {
            from: noon(),
            to: noon(),
            incidents: Vec::new(),
            speed: String::new(),
            ended: false,
        });
        for columns in [SMALLEST.0, 80] {
            view.columns = columns;
            view.key(Key::Char('?'), &[], 10, |_| Vec::new());
            let Page::Text { lines, .. } = std::mem::take(&mut view.page) else { panic!("no page") };
            assert!(lines.iter().all(|line| width(line) <= usize::from(columns)), "{lines:#?}");
            assert!(columns < 80 || !lines.iter().any(|line| line.starts_with(' ')), "{lines:#?}");
        }
    }
    let (model, moment) = hung_list();
    view.replay = None;
    view.key(Key::Char('?'), &[], 10, |_| Vec::new());
    let text = shown(&screen(&model, &view, moment, (80, 24)));
    assert!(text.contains("closes this page") && !text.contains("more line"), "{text}");
}

#[test]
fn a_long_page_scrolls_to_its_last_line() {
    let (model, moment) = hung_list();
    let mut view = view();
    let long =
        || (0..9).map(|number| format!("{number} {}", "word ".repeat(60))).chain(["the end".to_owned()]);
    let height = page_height(24, &model, false);
    view.key(Key::Enter, &[], height, |_| page_lines(&long().collect::<Vec<_>>(), 80));
    view.key(Key::End, &[], height, |_| Vec::new());
    let text = shown(&screen(&model, &view, moment, (80, 24)));
    assert!(text.contains("the end"), "{text}");
}

#[test]
fn the_columns_of_a_list_begin_in_the_same_place_in_every_row() {
    let (model, moment) = hung_list();
    let text = shown(&screen(&model, &view(), moment, (120, 40)));
    let rows = text.lines().filter_map(|line| line.find("ContainerStatus "));
    let columns: Vec<usize> = rows.collect();
    assert!(columns.len() > 1 && columns.iter().all(|column| *column == columns[0]), "{text}");
    assert!(text.contains(" 1 call ") && !text.contains(" 1 calls"), "{text}");
}

#[test]
fn escape_shows_everything_again_at_once() {
    let mut view = view();
    view.filter = "shop".to_owned();
    view.selected = Some(RowId::Entry(1));
    view.key(Key::Escape, &[], 10, |_| Vec::new());
    assert!(view.filter.is_empty() && view.selected.is_none());
}

#[test]
fn the_arrow_keys_move_in_a_capture_only() {
    let mut live = view();
    assert_eq!(live.key(Key::Left, &[], 10, |_| Vec::new()), None);
    let mut replay = view();
    replay.replay = Some(ReplayPosition {
        from: noon(),
        to: noon(),
        incidents: Vec::new(),
        speed: String::new(),
        ended: false,
    });
    let mut press = |key: Key| replay.key(key, &[], 10, |_| Vec::new());
    assert_eq!(press(Key::Left), Some(Action::Move(Movement::Step { back: true, far: false })));
    assert_eq!(press(Key::Char(']')), Some(Action::Move(Movement::Incident { back: false })));
    assert_eq!(press(Key::Home), Some(Action::Move(Movement::Start)));
    assert_eq!(press(Key::Char('+')), Some(Action::Speed { faster: true }));
}

#[test]
fn the_documented_screen_is_the_tested_one() {
    let (model, moment) = hung_list();
    let text = shown(&screen(&model, &view(), moment, (80, 24)));
    let text = text.split_once("--- styles").unwrap().0;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/top.md");
    let document = fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once("```text\n").unwrap();
    let (block, after) = rest.split_once("```\n").unwrap();
    if env::var_os("PLEGCTL_BLESS").is_some() {
        fs::write(&path, format!("{before}```text\n{text}```\n{after}")).unwrap();
    } else {
        assert_eq!(block, text, "docs/top.md");
    }
}

/// The hint of a healthy node names the container that failed most often.
#[test]
fn a_container_that_fails_again_and_again_is_named_with_the_command_for_its_log() {
    let mut model = model();
    relist(&mut model, 1, seconds(1), Duration::from_millis(9), None);
    assert!(model.judge(seconds(1).mono).hint.starts_with("if the node is NotReady"));
    for second in [2, 4] {
        event(&mut model, seconds(second), "shop/cache-0/cache", PlegState::Running, PlegState::Exited);
    }
    event(&mut model, seconds(5), "shop/web-1/nginx", PlegState::Running, PlegState::Exited);
    relist(&mut model, 2, seconds(6), Duration::from_millis(9), None);
    let hint = model.judge(seconds(6).mono).hint;
    assert_eq!(hint, "cache failed 2 times (137 OOMKilled): kubectl -n shop logs cache-0 -c cache -p");
}
