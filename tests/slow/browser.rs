//! Controls a browser without a screen through its debugging protocol, with real key presses.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::captures::{CaptureDir, argument};

/// The time limit for each answer of the browser.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The arguments of every browser: no screen, no network, an empty profile.
pub const ALONE: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,1400",
];

/// A running browser that shows one page.
pub struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    commands: u64,
    session: Option<Value>,
    _place: CaptureDir,
}

impl Browser {
    /// Opens `page`; `None` if there is no browser.
    pub fn open(page: &Path) -> Option<Self> {
        Command::new("chromium").arg("--version").output().ok()?;
        let place = CaptureDir::make();
        let pipes = [place.path("to"), place.path("from")];
        for pipe in &pipes {
            assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
        }
        // The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        let script = "exec chromium \"$@\" 3<\"$TO\" 4>\"$FROM\"";
        let child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(ALONE)
            .arg("--remote-debugging-pipe")
            .arg(format!("--user-data-dir={}", argument(&place.path("profile"))))
            .env("TO", &pipes[0])
            .env("FROM", &pipes[1])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = OpenOptions::new().write(true).open(&pipes[0]).unwrap();
        let answers = BufReader::new(File::open(&pipes[1]).unwrap());
        let (sender, from) = mpsc::channel();
        thread::spawn(move || {
            for answer in answers.split(0).map_while(Result::ok) {
                if sender.send(serde_json::from_slice(&answer).unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self { child, to, from, commands: 0, session: None, _place: place };
        let url = format!("file://{}", argument(&fs::canonicalize(page).unwrap()));
        let target = browser.command("Target.createTarget", &json!({ "url": url }))["targetId"].clone();
        let attached =
            browser.command("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        browser.session = Some(attached["sessionId"].clone());
        while browser.evaluate("document.readyState") != "complete"
            || browser.evaluate("!!document.getElementById('timeline')") != true
        {}
        browser.command("Page.bringToFront", &json!({}));
        Some(browser)
    }

    /// Sends one command of the browser's debugging protocol.
    pub fn command(&mut self, method: &str, parameters: &Value) -> Value {
        self.commands += 1;
        let mut command = json!({ "id": self.commands, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = session.clone();
        }
        self.to.write_all(command.to_string().as_bytes()).unwrap();
        self.to.write_all(&[0]).unwrap();
        loop {
            let answer = self.from.recv_timeout(TIME_LIMIT).unwrap_or_else(|why| panic!("{method}: {why}"));
            if answer["id"] == self.commands {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Returns the value of an expression on the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let answer =
            self.command("Runtime.evaluate", &json!({ "expression": expression, "returnByValue": true }));
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Presses a key, given by its name, its number and its text.
    pub fn press(&mut self, key: &str, number: u32, text: &str) {
        let kind = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        for kind in [kind, "keyUp"] {
            let mut event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": number });
            if kind == "keyDown" {
                event["text"] = text.into();
            }
            self.command("Input.dispatchKeyEvent", &event);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
