//! Runs the real binary, or another program, and collects its output and its exit status.
//!
//! ```ignore
//! let output = plegctl(&["relist", "-r", &fake.endpoint()]);
//! assert_eq!(output.code, Some(0), "{output}");
//! ```
//!
//! By default plegctl sees an empty node (`tests/support/empty-node`) instead of this machine: the empty node has no
//! kubelet, no runtime, no settings file and no socket. A test that needs this machine uses
//! [`Invocation::on_this_machine`]. Every JSON document on stdout must fit its schema (`schema.rs`), and neither stream may
//! have a character that controls a terminal. The module depends on no other module, so that any test target can include it
//! by its path.

#[path = "schema.rs"]
pub mod schema;

use std::ffi::OsStr;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// The time limit of a run.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// The time limit for reading the stderr of a killed program.
const STDERR_TIME_LIMIT: Duration = Duration::from_secs(60);

/// The host root of the empty node. Only a test build of plegctl accepts it (`PLEGCTL_TEST_NODE`).
const EMPTY_NODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/empty-node");

/// The process table of the empty node.
pub const EMPTY_PROC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/empty-node/proc");

/// SIGPIPE in the masks of `/proc/PID/status`. Every Rust program ignores SIGPIPE, and resets it for the programs that
/// it starts.
const SIGPIPE: u64 = 1 << 12;

/// Copies a program with `cp`. If this process wrote the copy itself, a test that starts a process at the same time
/// could hold the file open for writing for a moment, and the kernel would not run it ("Text file busy").
pub fn copy_program(program: impl AsRef<OsStr>, copy: impl AsRef<OsStr>) {
    let status = Command::new("cp").arg("--").arg(program).arg(copy).status().unwrap();
    assert!(status.success(), "cp: {status}");
}

/// Returns a program on the empty node, in UTC and the C locale, with only `PATH` from this environment, and with the
/// default action for every signal.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = if signals_are_ignored() {
        // If the tests run in the background, they may ignore signals, and every program that they start would too.
        // With its whole path, the standard library starts it without copying the page tables of this process.
        let mut command = Command::new("/usr/bin/env");
        command.arg("--default-signal").arg(program);
        command
    } else {
        Command::new(program)
    };
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("PLEGCTL_TEST_NODE", EMPTY_NODE)
        .envs([("TZ", "UTC"), ("LC_ALL", "C")]);
    command
}

/// Whether this process ignores a signal other than SIGPIPE; a child process would ignore it too.
fn signals_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(mask, 16).unwrap() & !SIGPIPE != 0
}

/// Runs plegctl with these arguments on the empty node.
pub fn plegctl(arguments: &[impl AsRef<OsStr>]) -> Output {
    Invocation::new(arguments).run()
}

/// Runs plegctl on the machine that runs the tests instead of the empty node.
pub fn plegctl_on_this_machine(arguments: &[impl AsRef<OsStr>]) -> Output {
    Invocation::new(arguments).on_this_machine().run()
}

/// A program that is not started yet, with its settings: see [`command`].
#[derive(Debug)]
#[must_use]
pub struct Invocation {
    command: Command,
    stdin: Vec<u8>,
    time_limit: Duration,
    /// Whether the streams must not control a terminal.
    is_harmless: bool,
}

impl Invocation {
    /// plegctl with these arguments.
    pub fn new(arguments: &[impl AsRef<OsStr>]) -> Self {
        Self { is_harmless: true, ..Self::program(env!("CARGO_BIN_EXE_plegctl"), arguments) }
    }

    /// Another program with these arguments.
    pub fn program(program: &str, arguments: &[impl AsRef<OsStr>]) -> Self {
        let mut command = command(program);
        command.args(arguments);
        Self { command, stdin: Vec::new(), time_limit: TIME_LIMIT, is_harmless: false }
    }

    /// plegctl in a terminal; see [`Self::program_in_terminal`].
    pub fn in_terminal(arguments: &[&str]) -> Self {
        Self::program_in_terminal(env!("CARGO_BIN_EXE_plegctl"), arguments)
    }

    /// Creates a program in a terminal made by util-linux's `script`: stdout has both streams, and lines end in
    /// `\r\n`.
    pub fn program_in_terminal(program: &str, arguments: &[&str]) -> Self {
        Self::in_terminal_of((50, 200), program, arguments)
    }

    /// Creates a program in a terminal with this number of rows and columns.
    pub fn in_terminal_of((rows, columns): (u16, u16), program: &str, arguments: &[&str]) -> Self {
        let words = [&[program], arguments].concat();
        let words: Vec<String> = words.into_iter().map(quoted).collect();
        let line = format!("stty rows {rows} columns {columns}; {}", words.join(" "));
        Self::program("script", &["--quiet", "--return", "--command", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
    }

    /// Divides every silence limit by five: a hang is likely after 1 s and certain after 2 s. This saves time in tests
    /// that do not test the limits.
    pub fn with_short_silences(self) -> Self {
        self.env("PLEGCTL_TEST_SILENCE_DIVISOR", "5")
    }

    /// Makes plegctl ignore the machine's load, for tests with calls that never answer: no load explains their silence.
    pub fn without_load(self) -> Self {
        self.env("PLEGCTL_TEST_NO_LOAD", "1")
    }

    /// Uses the machine that runs the tests instead of the empty node.
    pub fn on_this_machine(mut self) -> Self {
        self.command.env_remove("PLEGCTL_TEST_NODE");
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Sets the text on stdin, which is empty by default.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = text.into();
        self
    }

    /// Sets the working directory.
    pub fn current_dir(mut self, folder: &std::path::Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Sets the time limit, after which the program is killed and the test fails.
    pub fn time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// Runs the program to its end.
    pub fn run(self) -> Output {
        let mut running = self.spawn();
        let stdout = drained(running.stdout.take().unwrap());
        running.finish(&stdout)
    }

    /// Starts the program; only the test reads its stdout.
    pub fn spawn(mut self) -> Running {
        let text = format!("{:?}", self.command);
        let command = self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{text}: {error}"));
        feed(child.stdin.take().unwrap(), self.stdin);
        let stdout = child.stdout.take().map(BufReader::new);
        let stderr = drained(child.stderr.take().unwrap());
        Running {
            pid: child.id(),
            command: text,
            stdout,
            stderr,
            ended: awaited(child),
            over: false,
            time_limit: self.time_limit,
            is_harmless: self.is_harmless,
        }
    }
}

/// A program that runs while the test does something else.
#[derive(Debug)]
pub struct Running {
    pid: u32,
    command: String,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Receiver<Vec<u8>>,
    ended: Receiver<ExitStatus>,
    over: bool,
    time_limit: Duration,
    is_harmless: bool,
}

impl Running {
    /// Returns the next line of the program's stdout without the line end; `None` at the end.
    pub fn line(&mut self) -> Option<String> {
        let mut reader = self.stdout.take()?;
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let length = reader.read_line(&mut line).unwrap();
            let _ = sender.send((reader, (length > 0).then(|| line.trim_end_matches('\n').to_owned())));
        });
        let Ok((reader, line)) = receiver.recv_timeout(self.time_limit) else {
            self.fail("printed no line");
        };
        self.stdout = Some(reader);
        if let Some(line) = &line {
            schema::check(line);
            self.check_harmless(line);
        }
        line
    }

    /// Reads until the program has written `words`.
    pub fn until(&mut self, words: &str) {
        let Some(mut reader) = self.stdout.take() else { self.fail("has no stdout") };
        let (sender, receiver) = mpsc::channel();
        let wanted = words.as_bytes().to_vec();
        thread::spawn(move || {
            let mut seen = Vec::new();
            let mut byte = [0];
            while !seen.ends_with(&wanted) && reader.read(&mut byte).unwrap() > 0 {
                seen.extend(byte);
            }
            let _ = sender.send((reader, seen.ends_with(&wanted)));
        });
        let Ok((reader, true)) = receiver.recv_timeout(self.time_limit) else {
            self.fail(&format!("did not write {words:?}"));
        };
        self.stdout = Some(reader);
    }

    /// Sends the program a signal: `INT`, `TERM`, `TSTP`, ….
    pub fn signal(&self, name: &str) {
        send_signal(self.pid, name);
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the process id of the guard of the event stream.
    pub fn guard(&self) -> String {
        let pid = self.pid;
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let mut children = children.split_whitespace();
        let guard = children.next().expect("a guard is running").to_owned();
        assert_eq!(children.next(), None, "it is the only child");
        guard
    }

    /// Kills the guard of the event stream.
    pub fn kill_guard(&self) {
        send_signal(self.guard().parse().unwrap(), "KILL");
    }

    /// Closes the reading end of the program's stdout, as `head` does.
    pub fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// Waits for the end of the program without reading its stdout.
    pub fn wait_unread(mut self) -> Output {
        self.end(Vec::new())
    }

    /// Waits for the end of the program and collects the rest of its stdout.
    pub fn wait(mut self) -> Output {
        match self.stdout.take() {
            Some(stdout) => {
                let stdout = drained(stdout);
                self.finish(&stdout)
            }
            None => self.end(Vec::new()),
        }
    }

    /// Waits for the end of stdout, and then for the end of the program.
    fn finish(mut self, stdout: &Receiver<Vec<u8>>) -> Output {
        match stdout.recv_timeout(self.time_limit) {
            Ok(stdout) => self.end(stdout),
            Err(_) => self.fail("did not end its stdout"),
        }
    }

    /// Waits for the end of the program; returns its output.
    fn end(&mut self, stdout: Vec<u8>) -> Output {
        let Ok(status) = self.ended.recv_timeout(self.time_limit) else { self.fail("did not end") };
        self.over = true;
        let Ok(stderr) = self.stderr.recv_timeout(self.time_limit) else {
            self.fail("did not end its stderr")
        };
        let stdout = String::from_utf8(stdout).unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        schema::check(&stdout);
        self.check_harmless(&stdout);
        self.check_harmless(&stderr);
        Output { command: self.command.clone(), stdout, stderr, code: status.code(), signal: status.signal() }
    }

    /// Fails the test if a text would control a terminal, except for the colours of `--color always`.
    fn check_harmless(&self, text: &str) {
        let has_color = self.command.contains("\"always\"");
        let plain = if has_color { without_colors(text) } else { text.to_owned() };
        assert!(
            !self.is_harmless || !plain.contains(is_hostile),
            "{} controls the terminal: {text:?}",
            self.command
        );
    }

    /// Kills the program if it still runs.
    fn kill(&mut self) {
        if !self.over && self.ended.try_recv().is_err() {
            send_signal(self.pid, "KILL");
        }
        self.over = true;
    }

    /// Kills the program and fails the test.
    fn fail(&mut self, what: &str) -> ! {
        self.kill();
        // A child of the program may keep stderr open, so this waits only for a limited time.
        let stderr = self.stderr.recv_timeout(STDERR_TIME_LIMIT).unwrap_or_default();
        panic!(
            "{} {what} within {:?}; its stderr was:\n{}",
            self.command,
            self.time_limit,
            String::from_utf8_lossy(&stderr)
        )
    }
}

impl Drop for Running {
    /// Kills the program, so that a failed test leaves no process.
    fn drop(&mut self) {
        self.kill();
    }
}

/// The result of a run; `Display` shows all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The command line.
    pub command: String,
    /// The part of the program's stdout that the test had not read.
    pub stdout: String,
    /// The program's complete stderr.
    pub stderr: String,
    /// The exit status; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<i32>,
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, stdout, stderr, code, signal } = self;
        writeln!(f, "{command}\nexit status {code:?}, signal {signal:?}")?;
        write!(f, "--- stdout\n{stdout}\n--- stderr\n{stderr}\n---")
    }
}

/// Whether a character controls a terminal, or reorders or hides text.
fn is_hostile(letter: char) -> bool {
    let moves_text = matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    letter != '\n' && letter.is_control() || moves_text
}

/// Removes the control sequences of colours.
fn without_colors(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap().to_owned();
    let end = |part: &str| {
        part.find(|letter: char| !letter.is_ascii_digit() && letter != ';').unwrap_or(part.len())
    };
    parts.fold(first, |plain, part| match part[end(part)..].strip_prefix('m') {
        Some(rest) => plain + rest,
        None => plain + "\u{1b}[" + part,
    })
}

/// Writes the text to the program's stdin, in a thread.
fn feed(mut stdin: ChildStdin, text: Vec<u8>) {
    thread::spawn(move || {
        // Writing fails if the program does not read its stdin, which is allowed.
        let _ = stdin.write_all(&text);
    });
}

/// Reads a stream to its end, in a thread.
fn drained(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// Waits for the end of the program, in a thread.
fn awaited(mut child: Child) -> Receiver<ExitStatus> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let status = child.wait().unwrap();
        let _ = sender.send(status);
    });
    receiver
}

/// Uses the `kill` program, because a library call would need unsafe code.
fn send_signal(pid: u32, name: &str) {
    let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
