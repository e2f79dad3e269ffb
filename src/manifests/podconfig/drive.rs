//! Drives the sources as the kubelet does: when to look, when to ask, when to try again.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::time::{MissedTickBehavior, Sleep, interval, sleep};

use super::file::{FileSource, Scan};
use super::{Source, Wanted};
use crate::host::{PathWatch, Seen};

/// How often a watch that cannot be made is tried (retryPeriod in `pkg/kubelet/config/file_linux.go`).
const RETRY: Duration = Duration::from_secs(1);
/// The longest pause between two tries after a watch failed (maxRetryPeriod there).
const LONGEST_RETRY: Duration = Duration::from_secs(20);

/// What a source has to say.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// Its whole set.
    Set(Source, Vec<Wanted>),
    /// Something is wrong with it. What was known stays.
    Trouble(Source, String),
}

/// Follows a path until nobody listens.
pub async fn follow_files(mut source: FileSource, every: Duration, heard: Sender<Heard>) {
    let mut ticks = interval(every);
    // Go's ticker drops ticks for a slow reader.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut watch = Watch::default();
    loop {
        let scan = tokio::select! {
            biased;
            _ = ticks.tick() => source.scan(),
            step = watch.step(source.path()) => match step {
                Step::Event(event) => on_event(&mut source, &event),
                Step::Watching => continue,
                // The kubelet sends an empty set for a path that is not there, each time it tries to watch it.
                Step::Missing => Scan { set: Some(Vec::new()), ..Scan::default() },
                Step::Failed(why) => Scan { error: Some(why), ..Scan::default() },
            },
        };
        if tell(scan, &heard).await.is_err() {
            return;
        }
    }
}

fn on_event(source: &mut FileSource, event: &Seen) -> Scan {
    let hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    match event {
        Seen::Changed(path) | Seen::Removed(path) if hidden(path) => Scan::default(),
        Seen::Changed(path) => source.changed(path),
        Seen::Removed(path) => source.removed(path),
    }
}

/// Nobody listens any more.
struct Deaf;

async fn tell(scan: Scan, heard: &Sender<Heard>) -> Result<(), Deaf> {
    let refused =
        scan.refused.into_iter().map(|refused| format!("{}: {}", refused.path.display(), refused.reason));
    for trouble in scan.error.into_iter().chain(refused) {
        heard.send(Heard::Trouble(Source::File, trouble)).await.map_err(|_| Deaf)?;
    }
    if let Some(set) = scan.set {
        heard.send(Heard::Set(Source::File, set)).await.map_err(|_| Deaf)?;
    }
    Ok(())
}

enum Step {
    Event(Seen),
    Watching,
    Missing,
    Failed(String),
}

/// The watch, or the pause before the next try at one.
#[derive(Default)]
struct Watch {
    running: Option<PathWatch>,
    /// Kept here, because a scan that comes in between must not let it begin anew.
    pause: Option<Pin<Box<Sleep>>>,
    failures: u32,
}

impl Watch {
    /// What happens next. May be dropped at any wait and called again.
    async fn step(&mut self, path: &Path) -> Step {
        if let Some(watch) = &mut self.running {
            return match watch.next().await {
                Ok(event) => Step::Event(event),
                Err(why) => {
                    self.running = None;
                    self.failed(path, &why)
                }
            };
        }
        if let Some(pause) = &mut self.pause {
            pause.await;
        }
        self.pause = None;
        match PathWatch::new(path) {
            Ok(watch) => {
                self.running = Some(watch);
                self.failures = 0;
                // What happened before the watch stood is found by the next scan.
                Step::Watching
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                self.pause = Some(Box::pin(sleep(RETRY)));
                Step::Missing
            }
            Err(why) => self.failed(path, &why),
        }
    }

    fn failed(&mut self, path: &Path, why: &io::Error) -> Step {
        self.failures = self.failures.saturating_add(1);
        self.pause = Some(Box::pin(sleep(self.back_off())));
        let hint = match why.raw_os_error() {
            Some(limit) if limit == rustix::io::Errno::NOSPC.raw_os_error() => {
                " (see sysctl fs.inotify.max_user_watches)"
            }
            Some(limit) if limit == rustix::io::Errno::MFILE.raw_os_error() => {
                " (see sysctl fs.inotify.max_user_instances)"
            }
            _ => "",
        };
        Step::Failed(format!(
            "cannot watch {}: {why}{hint}; it is only looked at every so often",
            path.display()
        ))
    }

    /// Doubles with each failure in a row.
    fn back_off(&self) -> Duration {
        let doubled = 1u32.checked_shl(self.failures.saturating_sub(1)).unwrap_or(u32::MAX);
        RETRY.saturating_mul(doubled).min(LONGEST_RETRY)
    }
}
