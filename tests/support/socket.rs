//! Temporary folders, and the things that can be found where a runtime's socket should be.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::{env, fs, process, thread};

/// A folder that goes when this is dropped. Its path is short: a socket's may have 107 bytes.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// A new, empty folder.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("plegctl-test-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for TempDir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Something that is no CRI runtime, at a path of its own.
#[derive(Debug)]
pub struct NotARuntime {
    folder: TempDir,
    listener: Option<Listener>,
}

impl NotARuntime {
    /// Takes connections, reads, never says a word.
    pub fn accepts_and_is_silent() -> Self {
        Self::listening(|stream| {
            thread::spawn(move || std::io::copy(&mut &stream, &mut std::io::sink()));
        })
    }

    /// Answers whatever comes with an HTTP/1.1 error page, as a docker or podman socket would.
    pub fn speaks_http1() -> Self {
        Self::listening(|mut stream| {
            thread::spawn(move || {
                // The first bytes are read before the answer: closing with unread ones would be a reset.
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(
                    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\
                      Content-Length: 12\r\n\r\nbad request\n",
                );
                // So would closing while the client still writes.
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            });
        })
    }

    /// Takes connections and closes them.
    pub fn closes_at_once() -> Self {
        Self::listening(drop)
    }

    /// A socket file whose daemon is dead.
    pub fn nobody_listens() -> Self {
        let folder = TempDir::new();
        drop(UnixListener::bind(path_in(&folder)).unwrap());
        Self { folder, listener: None }
    }

    /// An ordinary file.
    pub fn regular_file() -> Self {
        let folder = TempDir::new();
        fs::write(path_in(&folder), "not a socket\n").unwrap();
        Self { folder, listener: None }
    }

    /// A folder.
    pub fn directory() -> Self {
        let folder = TempDir::new();
        fs::create_dir(path_in(&folder)).unwrap();
        Self { folder, listener: None }
    }

    /// Nothing at all, in a folder that exists.
    pub fn missing() -> Self {
        Self { folder: TempDir::new(), listener: None }
    }

    /// Its path.
    pub fn path(&self) -> PathBuf {
        path_in(&self.folder)
    }

    fn listening(serve: impl Fn(UnixStream) + Send + 'static) -> Self {
        let folder = TempDir::new();
        let listener = Some(Listener::start(path_in(&folder), serve));
        Self { folder, listener }
    }
}

impl Drop for NotARuntime {
    fn drop(&mut self) {
        // Before the folder goes, since it is woken through its path.
        drop(self.listener.take());
    }
}

fn path_in(folder: &TempDir) -> PathBuf {
    folder.path().join("cri.sock")
}

#[derive(Debug)]
struct Listener {
    path: PathBuf,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    fn start(path: PathBuf, serve: impl Fn(UnixStream) + Send + 'static) -> Self {
        let listener = UnixListener::bind(&path).unwrap();
        let stopping = Arc::new(AtomicBool::new(false));
        let told_to_stop = Arc::clone(&stopping);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if told_to_stop.load(Ordering::SeqCst) {
                    break;
                }
                serve(stream.unwrap());
            }
        });
        Self { path, stopping, thread: Some(thread) }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
