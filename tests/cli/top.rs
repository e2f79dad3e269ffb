//! Tests of `plegctl top` in terminals of tmux (skipped without tmux, with a message; with `CI=true` they fail), and
//! without a terminal.

use std::fs;

use plegctl_engine::cri::Rpc;

use crate::support::captures::{CaptureDir, argument, record};
use crate::support::plegctl::{Invocation, plegctl};
use crate::support::terminal::{Shell, has_tmux};
use crate::support::{FakeRuntime, Node};

fn small_node() -> Node {
    Node::new().pod("default/web-0", "uid-1").sandbox("s1").container("c1", "web")
}

#[test]
fn top_makes_the_calls_of_watch() {
    let calls = |command: &str| {
        let fake = FakeRuntime::start(small_node());
        let arguments = [command, "-r", &fake.endpoint(), "--count", "3", "--period", "50ms"];
        let output = Invocation::in_terminal_of((24, 80), env!("CARGO_BIN_EXE_plegctl"), &arguments).run();
        assert_eq!(output.code, Some(0), "{output}");
        let is_screen = output.stdout.contains("\u{1b}[?1049h");
        let calls: Vec<(Rpc, String)> = fake.calls().into_iter().map(|call| (call.rpc, call.id)).collect();
        (is_screen, calls)
    };
    let ((watch_is_screen, watch), (top_is_screen, top)) = (calls("watch"), calls("top"));
    assert!(!watch_is_screen && top_is_screen);
    assert_eq!(watch, top);
    assert!(top.len() >= 7, "{top:?}");
}

#[test]
fn without_a_terminal_on_a_dumb_one_and_on_a_small_one_top_runs_as_watch() {
    let arguments = ["top", "-r", "sim:crash-loop", "--at", "0s", "--count", "2", "--period", "50ms"];
    let binary = env!("CARGO_BIN_EXE_plegctl");
    for output in [
        plegctl(&arguments),
        Invocation::in_terminal_of((24, 80), binary, &arguments).env("TERM", "dumb").run(),
        Invocation::in_terminal_of((14, 80), binary, &arguments).run(),
        Invocation::in_terminal_of((24, 59), binary, &arguments).run(),
    ] {
        assert_eq!(output.code, Some(0), "{output}");
        assert!(output.stdout.contains("2 relists in "), "{output}");
        assert!(!output.stdout.contains("\u{1b}[?1049h"), "{output}");
    }
}

#[test]
fn a_runtime_that_is_down_is_waited_for() {
    for endpoint in ["/nonexistent.sock", "sim:runtime-down"] {
        let arguments = ["top", "-r", endpoint, "--count", "2", "--period", "50ms"];
        let output = Invocation::in_terminal_of((24, 80), env!("CARGO_BIN_EXE_plegctl"), &arguments).run();
        assert_eq!(output.code, Some(0), "{output}");
        assert!(output.stdout.contains("\u{1b}[?1049h") && output.stdout.contains("UNKNOWN"), "{output}");
    }
}

#[test]
fn an_endpoint_that_is_no_socket_is_an_error_and_no_screen() {
    let arguments = ["top", "-r", "/etc"];
    let output = Invocation::in_terminal_of((24, 80), env!("CARGO_BIN_EXE_plegctl"), &arguments).run();
    assert_eq!(output.code, Some(2), "{output}");
    assert!(!output.stdout.contains("\u{1b}[?1049h") && output.stdout.contains("error: "), "{output}");
}

#[test]
fn keys_filter_explain_pause_and_save_a_bundle() {
    if !has_tmux() {
        return;
    }
    let shell = Shell::open((80, 24));
    shell.top("-r sim:hung-list --at 0s");
    shell.shows("ListContainers has not answered for 5s");
    let screen = shell.shows("UNHEALTHY  no answer for");
    assert!(screen.contains("NotReady at the latest at ") && screen.contains(" UTC (in "), "{screen}");
    shell.press(&["Down", "Enter"]);
    let screen = shell.shows("to look further");
    assert!(screen.contains("UNHEALTHY"), "the verdict stays in sight:\n{screen}");
    shell.press(&["Escape"]);
    shell.shows("TRANSITIONS");
    shell.press(&["?"]);
    shell.shows("pause the screen");
    shell.press(&["q"]);
    shell.shows("TRANSITIONS");
    shell.press(&["/"]);
    shell.types("no such pod");
    shell.press(&["Enter"]);
    shell.shows("TRANSITIONS  filter: no such pod");
    shell.press(&["p"]);
    shell.shows("PAUSED");
    shell.press(&["p"]);
    shell.until("that it continues", |screen| !screen.contains("PAUSED"));
    let bundle = shell.path("node.tar.gz");
    shell.press(&["s"]);
    shell.types(&bundle);
    shell.press(&["Enter"]);
    shell.shows("bundle (unhealthy) in ");
    let output = plegctl(&["health", "--from", &bundle]);
    assert_eq!(output.code, Some(1), "{output}");
    shell.press(&["q"]);
    shell.shows("ready>");
}

#[test]
fn a_daemon_that_is_stopped_while_a_call_has_no_answer_is_named() {
    if !has_tmux() {
        return;
    }
    let fake = FakeRuntime::start(small_node());
    fake.on(Rpc::ListPodSandbox).hang();
    let shell = Shell::open((120, 30));
    // The scripted runtime listens in this process.
    let pid = std::process::id();
    let node = shell.path("node");
    let folder = format!("{node}/proc/{pid}");
    fs::create_dir_all(&folder).unwrap();
    let stat = |state: &str| {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        fs::write(format!("{folder}/stat"), format!("{pid} (containerd) {state}{}", &rest[1..])).unwrap();
    };
    stat("S");
    let binary = env!("CARGO_BIN_EXE_plegctl");
    shell.run(&format!("clear; PLEGCTL_TEST_NODE={node} {binary} top -r {}", fake.endpoint()));
    let screen = shell.shows("no answer for");
    assert!(!screen.contains("is stopped"), "{screen}");
    stat("T");
    shell.shows(&format!("containerd[{pid}] is stopped (state T); no answer for"));
    shell.press(&["q"]);
}

#[test]
fn the_terminal_is_restored_after_a_signal_a_suspension_and_a_new_size() {
    if !has_tmux() {
        return;
    }
    let shell = Shell::open((80, 24));
    let before = shell.settings("before");
    let own = |text: &str| text.contains("PENDING CALLS");
    let pid = shell.path("pid");
    let start = format!(
        "clear; echo earlier text; bash -c 'echo $$ > {pid}; exec {} top -r sim:quiet --at 0s'",
        env!("CARGO_BIN_EXE_plegctl")
    );
    let signal = |name: &str| {
        let number = fs::read_to_string(&pid).unwrap();
        let status = std::process::Command::new("kill").args([name, number.trim()]).status().unwrap();
        assert!(status.success());
        shell.until("the shell", |screen| !own(screen));
    };
    shell.run(&start);
    shell.shows("PENDING CALLS");
    // The screen adapts to a new size.
    shell.tmux(&["resize-window", "-x", "120", "-y", "40"]);
    shell.until("the wide screen", |screen| {
        own(screen) && screen.lines().any(|line| line.chars().count() > 100)
    });
    shell.tmux(&["resize-window", "-x", "50", "-y", "12"]);
    shell.shows("is too small");
    shell.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    shell.shows("PENDING CALLS");
    // While `top` is suspended, the shell has its terminal back.
    shell.press(&["C-z"]);
    let screen = shell.shows("Stopped");
    assert!(!own(&screen) && screen.contains("earlier text"), "{screen}");
    assert_eq!(shell.settings("suspended"), before);
    shell.run("fg");
    shell.shows("PENDING CALLS");
    signal("-TERM");
    assert_eq!(shell.settings("terminated"), before);
    shell.run(&start);
    shell.shows("PENDING CALLS");
    signal("-HUP");
    assert_eq!(shell.settings("ended"), before);
    shell.top("-r sim:quiet --at 0s");
    shell.shows("PENDING CALLS");
    shell.press(&["C-c"]);
    shell.until("the shell", |screen| !own(screen) && screen.contains("ready>"));
    assert_eq!(shell.settings("interrupted"), before);
}

#[test]
fn the_terminal_is_restored_after_a_panic_and_the_message_is_readable() {
    if !has_tmux() {
        return;
    }
    let shell = Shell::open((80, 24));
    let before = shell.settings("before");
    let binary = env!("CARGO_BIN_EXE_plegctl");
    shell.run(&format!(
        "clear; echo earlier text; PLEGCTL_TEST_PANIC_KEY=x {binary} top -r sim:quiet --at 0s; echo status $?."
    ));
    shell.shows("PENDING CALLS");
    shell.press(&["x"]);
    let screen = shell.shows("status 2.");
    assert!(!screen.contains("PENDING CALLS"), "the alternate screen is left:\n{screen}");
    assert!(screen.contains("earlier text"), "{screen}");
    assert!(screen.contains("plegctl itself failed"), "{screen}");
    assert_eq!(shell.settings("after"), before);
}

#[test]
fn a_capture_is_played_and_the_arrow_keys_move_in_it() {
    if !has_tmux() {
        return;
    }
    let captures = CaptureDir::make();
    let capture = captures.path("capture");
    let times = ["--count", "4", "--period", "1s", "--slow", "100ms", "--no-diagnose"];
    record("sim:slow-status", &capture, &times);
    let shell = Shell::open((80, 24));
    shell.top(&format!("-r capture:{}", argument(&capture)));
    shell.shows("capture ");
    shell.press(&["End"]);
    shell.shows("  end");
    let at_end = shell.screen();
    assert!(at_end.contains("relist 4"), "{at_end}");
    shell.press(&["p", "Home"]);
    shell.until("the start", |screen| screen.contains("paused") && screen.contains("no relist yet"));
    shell.press(&["Right"]);
    shell.until("a later moment", |screen| screen.contains("paused") && !screen.contains("no relist yet"));
    shell.press(&["p", "+"]);
    shell.shows("  end");
    shell.press(&["q"]);
    shell.shows("ready>");
}
