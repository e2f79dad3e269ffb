//! [`PathWatch`]: watches a file or a directory with inotify and returns the events in the kernel's order.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// The size of the read buffer; it has room for several hundred events.
const BUFFER: usize = 8192;

/// How many events are queued in this process; further events stay in the kernel's queue.
const QUEUE: usize = 16;

/// One event. The path is the watched file, or the entry in the watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// The file was created, written or moved here, or its attributes changed.
    Changed(PathBuf),
    /// The file was removed or moved away.
    Removed(PathBuf),
}

/// A watch on a directory or a file. When the path itself is removed or moved, its last event is [`PathEvent::Removed`];
/// a new file at the same path is not watched.
#[derive(Debug)]
pub struct PathWatch {
    events: Receiver<io::Result<PathEvent>>,
}

impl PathWatch {
    /// Watches `path`, with a thread that reads the kernel's events.
    pub fn new(path: &Path) -> io::Result<Self> {
        let inotify = init(CreateFlags::CLOEXEC)?;
        let what = WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::CREATE
            | WatchFlags::ATTRIB
            | WatchFlags::MODIFY
            | WatchFlags::MOVE_SELF
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF;
        add_watch(&inotify, path, what)?;
        let (sender, events) = mpsc::channel(QUEUE);
        let path = path.to_path_buf();
        thread::Builder::new().name("inotify".to_owned()).spawn(move || read(&inotify, &path, &sender))?;
        Ok(Self { events })
    }

    /// Waits for the next event. An error means that events were lost; after an error, or if the watched path was
    /// removed or moved, this never returns.
    pub async fn next(&mut self) -> io::Result<PathEvent> {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}

/// Sends the kernel's events until the watch ends or nobody receives them.
fn read(inotify: &OwnedFd, path: &Path, events: &Sender<io::Result<PathEvent>>) {
    let mut buffer = [const { MaybeUninit::uninit() }; BUFFER];
    let mut reader = Reader::new(inotify, &mut buffer);
    loop {
        let (event, ended) = match reader.next() {
            Ok(event) => {
                let name = event.file_name().map(|name| std::ffi::OsStr::from_bytes(name.to_bytes()));
                let place = name.map_or_else(|| path.to_path_buf(), |name| path.join(name));
                convert(event.events(), place)
            }
            Err(rustix::io::Errno::INTR) => continue,
            Err(why) => (Some(Err(why.into())), true),
        };
        let is_sent = event.is_none_or(|event| events.blocking_send(event).is_ok());
        if ended || !is_sent {
            return;
        }
    }
}

/// Converts an event of the kernel, and returns whether it is the last event of the watch.
fn convert(bits: ReadFlags, place: PathBuf) -> (Option<io::Result<PathEvent>>, bool) {
    if bits.contains(ReadFlags::QUEUE_OVERFLOW) {
        let why = "the kernel's queue of events was full (fs.inotify.max_queued_events)";
        return (Some(Err(io::Error::other(why))), true);
    }
    if bits.intersects(ReadFlags::IGNORED | ReadFlags::UNMOUNT) {
        return (None, true);
    }
    let made = ReadFlags::CREATE | ReadFlags::MOVED_TO | ReadFlags::MODIFY | ReadFlags::ATTRIB;
    let event = if bits.intersects(made) { PathEvent::Changed(place) } else { PathEvent::Removed(place) };
    (Some(Ok(event)), bits.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    async fn events_until(watch: &mut PathWatch, until: &PathEvent) -> Vec<PathEvent> {
        let mut event = Vec::new();
        while !event.contains(until) {
            event.push(watch.next().await.unwrap());
        }
        event
    }

    #[tokio::test]
    async fn a_rename_is_a_removal_and_then_a_change() {
        let base = std::env::temp_dir().join(format!("plegctl-inotify-{}", std::process::id()));
        let directory = base.join("manifests");
        fs::create_dir_all(&directory).unwrap();
        let mut watch = PathWatch::new(&directory).unwrap();
        let (old, new) = (directory.join("a"), directory.join("b"));
        fs::write(&old, "x").unwrap();
        fs::rename(&old, &new).unwrap();
        let event = events_until(&mut watch, &PathEvent::Changed(new.clone())).await;
        assert_eq!(event.first(), Some(&PathEvent::Changed(old.clone())));
        assert_eq!(&event[event.len() - 2..], [PathEvent::Removed(old), PathEvent::Changed(new)]);

        fs::rename(&directory, base.join("away")).unwrap();
        events_until(&mut watch, &PathEvent::Removed(directory.clone())).await;
        fs::rename(base.join("away"), &directory).unwrap();
        fs::write(directory.join("c"), "x").unwrap();
        assert!(
            watch.events.recv().await.is_none(),
            "after it was moved, the directory is not watched any more"
        );
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_missing_path_cannot_be_watched() {
        assert_eq!(PathWatch::new(Path::new("/nonexistent/x")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
