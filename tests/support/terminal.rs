//! A shell in a terminal of tmux, for tests that press keys and read the screen. Without tmux these tests are skipped with a
//! message; with `CI=true` they fail instead.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, fs, process, thread};

use super::plegctl::Invocation;

/// How often a screen is read until it shows what a test expects.
const READS: usize = 3000;

/// The pause between two reads.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether tmux is available.
pub fn has_tmux() -> bool {
    if std::process::Command::new("tmux").arg("-V").output().is_ok() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "tmux is needed where CI=true");
    eprintln!("skipped: tmux is not installed");
    false
}

/// A shell in a terminal of its own tmux server, with a directory for its files. Both are gone when it is dropped.
pub struct Shell {
    folder: PathBuf,
}

impl Shell {
    /// Starts bash with job control in a terminal of this size.
    pub fn open((columns, lines): (usize, usize)) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // The path is short, because a socket's path may have 107 bytes.
        let folder = env::temp_dir().join(format!("plegctl-shell-{}-{number}", process::id()));
        fs::create_dir(&folder).unwrap();
        let shell = Self { folder };
        let (x, y) = (columns.to_string(), lines.to_string());
        let run = "exec env PS1='ready> ' bash --norc --noprofile -i";
        shell.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &x, "-y", &y, run]);
        shell.shows("ready>");
        shell
    }

    /// Runs a tmux command, and returns its output.
    pub fn tmux(&self, arguments: &[&str]) -> String {
        let output = Invocation::program("tmux", &[&["-u", "-L", "top"], arguments].concat())
            .env("TMUX_TMPDIR", &self.folder)
            .env("LANG", "C.UTF-8")
            .env("SHELL", "/bin/sh")
            .run();
        assert_eq!(output.code, Some(0), "{output}");
        output.stdout
    }

    /// Returns the visible screen.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen shows `words`; returns the screen.
    pub fn shows(&self, words: &str) -> String {
        self.until(words, |screen| screen.contains(words))
    }

    /// Waits until the screen is as wanted; returns the screen.
    pub fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        for _ in 0..READS {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            thread::sleep(PAUSE);
        }
        panic!("the screen does not show {what}:\n{}", self.screen())
    }

    /// Presses keys by tmux's names.
    pub fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a text.
    pub fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Runs a command line in the shell.
    pub fn run(&self, line: &str) {
        self.types(line);
        self.press(&["Enter"]);
    }

    /// Starts plegctl in the shell.
    pub fn top(&self, arguments: &str) {
        self.run(&format!("clear; '{}' top {arguments}", env!("CARGO_BIN_EXE_plegctl")));
    }

    /// Returns the path of a file in the directory of this shell.
    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Writes the settings of the terminal to a file and returns them.
    pub fn settings(&self, name: &str) -> String {
        let path = self.path(name);
        self.run(&format!("clear; stty -a > {path}; echo {name}-$((40 + 2))"));
        self.shows(&format!("{name}-42"));
        fs::read_to_string(path).unwrap()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ =
            Invocation::program("tmux", &["-L", "top", "kill-server"]).env("TMUX_TMPDIR", &self.folder).run();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
