//! Watches a directory with inotify and returns the events in their original order.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// The size of a read buffer: some hundred events with names of usual length.
const BUFFER: usize = 8192;

/// How many events wait in this process; the kernel holds the others.
const QUEUE: usize = 16;

/// One event. The path is that of the watch, with the name of the entry if the event is about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// The entry was created, written or moved here, or its attributes changed.
    Changed(PathBuf),
    /// The entry was removed or moved away.
    Removed(PathBuf),
}

/// A watch on a directory or a file. The watch ends silently when the path itself is removed or moved; a new file at
/// the same path is not watched.
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

    /// The next event. Waits forever once the watch has ended. After an error there are no more events, because
    /// events were lost.
    pub async fn next(&mut self) -> io::Result<PathEvent> {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }
}

/// Reads until the watch ends or the receiver is gone.
fn read(inotify: &OwnedFd, path: &Path, events: &Sender<io::Result<PathEvent>>) {
    let mut buffer = [const { MaybeUninit::uninit() }; BUFFER];
    let mut reader = Reader::new(inotify, &mut buffer);
    loop {
        let (seen, ended) = match reader.next() {
            Ok(event) => {
                let name = event.file_name().map(|name| std::ffi::OsStr::from_bytes(name.to_bytes()));
                let place = name.map_or_else(|| path.to_path_buf(), |name| path.join(name));
                convert(event.events(), place)
            }
            Err(rustix::io::Errno::INTR) => continue,
            Err(why) => (Some(Err(why.into())), true),
        };
        let is_sent = seen.is_none_or(|seen| events.blocking_send(seen).is_ok());
        if ended || !is_sent {
            return;
        }
    }
}

/// Converts an event, and returns whether it is the last.
fn convert(bits: ReadFlags, place: PathBuf) -> (Option<io::Result<PathEvent>>, bool) {
    if bits.contains(ReadFlags::QUEUE_OVERFLOW) {
        let why = "more happened than the kernel's queue holds (fs.inotify.max_queued_events)";
        return (Some(Err(io::Error::other(why))), true);
    }
    if bits.intersects(ReadFlags::IGNORED | ReadFlags::UNMOUNT) {
        return (None, true);
    }
    let made = ReadFlags::CREATE | ReadFlags::MOVED_TO | ReadFlags::MODIFY | ReadFlags::ATTRIB;
    let seen = if bits.intersects(made) { PathEvent::Changed(place) } else { PathEvent::Removed(place) };
    (Some(Ok(seen)), bits.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    async fn all(watch: &mut PathWatch, until: &PathEvent) -> Vec<PathEvent> {
        let mut seen = Vec::new();
        while !seen.contains(until) {
            seen.push(watch.next().await.unwrap());
        }
        seen
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
        let seen = all(&mut watch, &PathEvent::Changed(new.clone())).await;
        assert_eq!(seen.first(), Some(&PathEvent::Changed(old.clone())));
        assert_eq!(&seen[seen.len() - 2..], [PathEvent::Removed(old), PathEvent::Changed(new)]);

        fs::rename(&directory, base.join("away")).unwrap();
        all(&mut watch, &PathEvent::Removed(directory.clone())).await;
        fs::rename(base.join("away"), &directory).unwrap();
        fs::write(directory.join("c"), "x").unwrap();
        assert!(watch.events.recv().await.is_none(), "a directory that was away is watched no more");
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn missing_path_cannot_be_watched() {
        assert_eq!(PathWatch::new(Path::new("/nonexistent/x")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
