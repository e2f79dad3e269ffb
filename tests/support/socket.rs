//! For the tests: temporary directories, and files and sockets that a user may name by mistake instead of a runtime's
//! socket.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::{env, fs, process, thread};

/// A directory that is removed when this is dropped. Its path is short, because a socket's path may have 107 bytes.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Creates an empty directory.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("plegctl-test-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Returns the path of the directory.
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

/// A file, a directory or a socket that is not the socket of a CRI runtime.
#[derive(Debug)]
pub struct NotARuntime {
    folder: TempDir,
    listener: Option<Listener>,
}

impl NotARuntime {
    /// Creates a socket that accepts connections, reads, and sends nothing.
    pub fn accepts_and_is_silent() -> Self {
        Self::listening(|stream| {
            thread::spawn(move || std::io::copy(&mut &stream, &mut std::io::sink()));
        })
    }

    /// Creates a socket that answers everything with an HTTP/1.1 error page, like docker or podman.
    pub fn answers_http1() -> Self {
        Self::listening(|mut stream| {
            thread::spawn(move || {
                // Reads the first bytes before it answers, because closing with unread bytes resets the connection.
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(
                    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\
                      Content-Length: 12\r\n\r\nbad request\n",
                );
                // Closing while the client still writes would reset the connection too.
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            });
        })
    }

    /// Creates a socket that accepts connections and closes them.
    pub fn closes_at_once() -> Self {
        Self::listening(drop)
    }

    /// Creates a socket file without a listener.
    pub fn nobody_listens() -> Self {
        let folder = TempDir::new();
        drop(UnixListener::bind(path_in(&folder)).unwrap());
        Self { folder, listener: None }
    }

    /// Creates a regular file.
    pub fn regular_file() -> Self {
        let folder = TempDir::new();
        fs::write(path_in(&folder), "not a socket\n").unwrap();
        Self { folder, listener: None }
    }

    /// Creates a directory.
    pub fn directory() -> Self {
        let folder = TempDir::new();
        fs::create_dir(path_in(&folder)).unwrap();
        Self { folder, listener: None }
    }

    /// Creates a path without an object in an existing directory.
    pub fn missing() -> Self {
        Self { folder: TempDir::new(), listener: None }
    }

    /// Returns the path of the object.
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
        // The thread ends before the directory is removed, because a connection to the path wakes it.
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
