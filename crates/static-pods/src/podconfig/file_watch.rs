//! Runs the file source with the kubelet's timing: periodic scans, inotify events between them, and retries if the inotify
//! watch fails.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::time::{MissedTickBehavior, Sleep, interval, sleep};

use super::file::{FileScan, FileSource};
use super::{PodSource, WantedPod};
use plegctl_node::host::{PathEvent, PathWatch};

/// The first pause before a retry of a failed file watch (retryPeriod in `pkg/kubelet/config/file_linux.go`).
const RETRY: Duration = Duration::from_secs(1);
/// The longest pause before a retry of a failed file watch (maxRetryPeriod in the same file).
const MAX_RETRY: Duration = Duration::from_secs(20);
/// The number of events after which a due scan no longer waits for further events.
const MAX_EVENTS_BEFORE_SCAN: usize = 1_000;

/// A message of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceMessage {
    /// The complete set of the source's pods.
    Set(PodSource, Vec<Arc<WantedPod>>),
    /// An error of the source. Its last set stays valid.
    Error(PodSource, String),
}

/// Follows a manifest path, with a scan every `period`, and sends messages until the receiver is dropped.
pub async fn follow_files(mut source: FileSource, period: Duration, messages: Sender<SourceMessage>) {
    let mut ticks = interval(period);
    // After a slow scan, Go's ticker also skips the missed ticks.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut watch = FileWatch::default();
    loop {
        let next_event = tokio::select! {
            biased;
            _ = ticks.tick() => None,
            next_event = watch.next_event(source.path()) => Some(next_event),
        };
        let sent = match next_event {
            Some(event) => send_scan(on_watch_event(&mut source, event), &messages).await,
            None => scan_after_pending_events(&mut source, &mut watch, &messages).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Scans the path, but first handles the events that are already there. If a scan and an event are due at the same time,
/// the kubelet takes either; plegctl always takes the event, so that a slow machine does not change the updates.
async fn scan_after_pending_events(
    source: &mut FileSource,
    watch: &mut FileWatch,
    messages: &Sender<SourceMessage>,
) -> Result<(), ReceiverDropped> {
    for _ in 0..MAX_EVENTS_BEFORE_SCAN {
        let pending = tokio::select! {
            biased;
            event = watch.next_event(source.path()), if watch.running.is_some() => event,
            () = std::future::ready(()) => break,
        };
        send_scan(on_watch_event(source, pending), messages).await?;
    }
    send_scan(source.scan(), messages).await
}

/// Passes a report of the watch to the source.
fn on_watch_event(source: &mut FileSource, event: FileWatchEvent) -> FileScan {
    match event {
        FileWatchEvent::Event(event) => on_event(source, &event),
        FileWatchEvent::Watching => FileScan::default(),
        // The kubelet sends an empty set for a missing path each time it tries to watch it.
        FileWatchEvent::Missing => FileScan { set: Some(Vec::new()), ..FileScan::default() },
        FileWatchEvent::Failed(why) => FileScan { error: Some(why), ..FileScan::default() },
    }
}

/// Passes an inotify event to the source. The kubelet ignores events for hidden files.
fn on_event(source: &mut FileSource, event: &PathEvent) -> FileScan {
    let is_hidden =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    match event {
        PathEvent::Changed(path) | PathEvent::Removed(path) if is_hidden(path) => FileScan::default(),
        PathEvent::Changed(path) => source.changed(path),
        PathEvent::Removed(path) => source.removed(path),
    }
}

/// The receiver of the messages was dropped.
struct ReceiverDropped;

/// Sends the errors of a scan, then its set of pods.
async fn send_scan(scan: FileScan, messages: &Sender<SourceMessage>) -> Result<(), ReceiverDropped> {
    let refused =
        scan.refused.into_iter().map(|refused| format!("{}: {}", refused.path.display(), refused.reason));
    for error in scan.error.into_iter().chain(refused) {
        messages.send(SourceMessage::Error(PodSource::File, error)).await.map_err(|_| ReceiverDropped)?;
    }
    if let Some(set) = scan.set {
        messages.send(SourceMessage::Set(PodSource::File, set)).await.map_err(|_| ReceiverDropped)?;
    }
    Ok(())
}

/// What the watch of the path reports.
enum FileWatchEvent {
    /// An entry was created, changed or removed.
    Event(PathEvent),
    /// The watch has started.
    Watching,
    /// The path does not exist.
    Missing,
    /// The watch failed, with the reason.
    Failed(String),
}

/// The inotify watch of the path, or the pause before the next attempt to create it.
#[derive(Default)]
struct FileWatch {
    running: Option<PathWatch>,
    /// The pause is a field, so that it continues if a scan interrupts [`FileWatch::next_event`].
    pause: Option<Pin<Box<Sleep>>>,
    /// The number of failures since the watch last started.
    failures: u32,
}

impl FileWatch {
    /// Waits for the next event. The caller may drop the future and call the method again.
    async fn next_event(&mut self, path: &Path) -> FileWatchEvent {
        if let Some(watch) = &mut self.running {
            return match watch.next().await {
                Ok(event) => FileWatchEvent::Event(event),
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
                // The next scan finds changes from before the watch started.
                FileWatchEvent::Watching
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                self.pause = Some(Box::pin(sleep(RETRY)));
                FileWatchEvent::Missing
            }
            Err(why) => self.failed(path, &why),
        }
    }

    fn failed(&mut self, path: &Path, why: &io::Error) -> FileWatchEvent {
        self.pause = Some(Box::pin(sleep(back_off(self.failures, MAX_RETRY))));
        self.failures = self.failures.saturating_add(1);
        let hint = sysctl_of(why).map_or_else(String::new, |sysctl| format!(" (see sysctl {sysctl})"));
        FileWatchEvent::Failed(format!(
            "cannot watch {}: {why}{hint}; plegctl notices changes of this path only at its periodic scans",
            path.display()
        ))
    }
}

/// Returns the kernel setting that limits the resource of an inotify error.
fn sysctl_of(why: &io::Error) -> Option<&'static str> {
    let number = why.raw_os_error()?;
    if number == rustix::io::Errno::NOSPC.raw_os_error() {
        Some("fs.inotify.max_user_watches")
    } else if number == rustix::io::Errno::MFILE.raw_os_error() {
        Some("fs.inotify.max_user_instances")
    } else {
        None
    }
}

/// Returns the pause after this number of consecutive failures. The pause doubles with each failure.
pub(super) fn back_off(failures: u32, longest: Duration) -> Duration {
    let doubled = 1u32.checked_shl(failures).filter(|doubled| *doubled > 0).unwrap_or(u32::MAX);
    RETRY.saturating_mul(doubled).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_maximum() {
        let pauses: Vec<u64> =
            [0, 1, 2, 4, 5, 31, 32, 90].map(|failures| back_off(failures, MAX_RETRY).as_secs()).to_vec();
        assert_eq!(pauses, [1, 2, 4, 16, 20, 20, 20, 20]);
    }

    #[test]
    fn an_error_about_an_inotify_limit_names_the_sysctl() {
        let error_text =
            |errno: rustix::io::Errno| match FileWatch::default().failed(Path::new("/m"), &errno.into()) {
                FileWatchEvent::Failed(why) => why,
                _ => String::new(),
            };
        // The pause is a timer, so a runtime is needed.
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
            assert!(error_text(rustix::io::Errno::NOSPC).contains("fs.inotify.max_user_watches"));
            assert!(error_text(rustix::io::Errno::MFILE).contains("fs.inotify.max_user_instances"));
            assert!(!error_text(rustix::io::Errno::ACCESS).contains("sysctl"));
        });
    }
}
