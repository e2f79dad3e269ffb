//! Reads files that the kernel generates while they are read, such as those in `/proc`, with as few system calls as
//! possible, because a node has thousands of them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, StatxFlags};

/// The largest number of bytes that one read of such a file returns.
const PAGE: usize = 4096;

/// Reads the file at `path`. Does not query the file's size first, because the kernel reports 0 for such files.
pub fn kernel_bytes(path: &Path) -> io::Result<Vec<u8>> {
    read_all(File::open(path)?)
}

/// Reads the file as text. Invalid UTF-8 is replaced, because a process may have any bytes in its name.
pub fn kernel_text(path: &Path) -> io::Result<String> {
    kernel_bytes(path).map(text)
}

/// Reads a file that has only one record, such as a process's `stat`. One read returns such a file completely, so no
/// second read is made to find its end.
pub fn kernel_record(path: &Path) -> io::Result<String> {
    record(File::open(path)?)
}

/// A directory whose files are read one after another; its path is resolved only once.
#[derive(Debug)]
pub struct KernelDir(OwnedFd);

impl KernelDir {
    /// Opens the directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Returns the entries whose names are numbers, as far as they can be read.
    pub fn numbered(&self) -> Vec<u32> {
        let entries = Dir::read_from(&self.0).into_iter().flatten().map_while(Result::ok);
        entries.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok()).collect()
    }

    /// Returns the target of a link in the directory.
    pub fn link(&self, name: &str) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.0, name, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Whether `name` is a set-user-id or set-group-id program. Uses cached metadata, so no request is sent to a file
    /// server, which may not answer.
    pub fn is_set_user_id(&self, name: &str) -> bool {
        let flags = AtFlags::STATX_DONT_SYNC;
        let about = rustix::fs::statx(&self.0, name, flags, StatxFlags::MODE);
        about
            .is_ok_and(|about| Mode::from_raw_mode(about.stx_mode.into()).intersects(Mode::SUID | Mode::SGID))
    }

    /// Reads a generated file in the directory.
    pub fn bytes(&self, name: &str) -> io::Result<Vec<u8>> {
        read_all(self.file(name)?)
    }

    /// Opens a file in the directory.
    pub fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Reads a file with one record in the directory.
    pub fn record(&self, name: &str) -> io::Result<String> {
        record(self.file(name)?)
    }
}

/// Returns the CPU time of all threads of this process; `None` if the kernel does not record it.
pub fn time_on_processors() -> Option<Duration> {
    of_all_threads(|(ran, _)| ran)
}

/// Returns the CPU time of all threads of this process plus the time in which they waited for a CPU.
pub fn cpu_and_waiting_time() -> Option<Duration> {
    of_all_threads(|(ran, waited)| ran + waited)
}

/// Returns how many times longer this process runs because it waits for a CPU: 1 if it never waits, 2 if it waits as
/// long as it runs. `None` if the kernel does not record it.
pub fn slowed() -> Option<f64> {
    let (ran, waited) = of_all_threads(|times| times)?;
    (!ran.is_zero()).then(|| (ran + waited).as_secs_f64() / ran.as_secs_f64())
}

/// Adds up the times of all threads of this process, and returns what `time` makes of them.
fn of_all_threads<T>(time: impl Fn((Duration, Duration)) -> T) -> Option<T> {
    if !plegctl_base::test_settings::sees_load() {
        return None;
    }
    thread_times(Path::new("/proc/self/task")).map(time)
}

/// Returns the time that all threads in the directory `tasks` of a process ran, and the time that they waited for a CPU;
/// `None` if the kernel does not record it.
pub fn thread_times(tasks: &Path) -> Option<(Duration, Duration)> {
    let tasks = KernelDir::open(tasks).ok()?;
    let times = tasks.numbered().into_iter().map(|thread| {
        let text = tasks.record(&format!("{thread}/schedstat")).ok()?;
        ran_and_waited(&text)
    });
    // A thread may end during the loop.
    times.flatten().reduce(|all, one| (all.0 + one.0, all.1 + one.1))
}

/// Parses the time on a CPU and the time of waiting for a CPU from a `schedstat` file.
fn ran_and_waited(text: &str) -> Option<(Duration, Duration)> {
    let mut words = text.split_ascii_whitespace();
    let mut next = || words.next()?.parse::<u64>().ok().map(Duration::from_nanos);
    Some((next()?, next()?))
}

fn record(file: File) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(PAGE);
    if rustix::io::read(&file, spare_capacity(&mut bytes))? >= PAGE {
        bytes.append(&mut read_all(file)?);
    }
    Ok(text(bytes))
}

fn read_all(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PAGE);
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|why| String::from_utf8_lossy(why.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_longer_than_a_page_is_read_to_its_end() {
        let path = std::env::temp_dir().join(format!("plegctl-kernel-{}", std::process::id()));
        let text = "ä\n".repeat(5000);
        std::fs::write(&path, &text).unwrap();
        assert_eq!(kernel_text(&path).unwrap(), text);
        assert_eq!(kernel_record(&path).unwrap(), text);
        std::fs::write(&path, b"a\xffb").unwrap();
        assert_eq!(kernel_text(&path).unwrap(), "a\u{fffd}b");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_thread_of_this_process_is_running() {
        let tasks = KernelDir::open(Path::new("/proc/self/task")).unwrap();
        let threads = tasks.numbered();
        assert!(!threads.is_empty());
        let running =
            |thread: &&u32| tasks.record(&format!("{thread}/stat")).is_ok_and(|stat| stat.contains(") R "));
        assert!(threads.iter().any(|thread| running(&thread)), "this very thread runs");
        assert!(tasks.record("none").is_err());
    }

    #[test]
    fn cpu_time_and_waiting_time_are_parsed() {
        assert_eq!(
            ran_and_waited("5000 7000 3\n"),
            Some((Duration::from_micros(5), Duration::from_micros(7)))
        );
        assert_eq!(ran_and_waited("5000\n"), None);
        assert_eq!(ran_and_waited(""), None);
    }

    #[test]
    fn a_missing_file_is_an_error() {
        assert!(kernel_bytes(Path::new("/proc/0/stat")).is_err());
    }

    #[test]
    fn a_long_process_table_is_listed_completely() {
        let table = std::env::temp_dir().join(format!("plegctl-table-{}", std::process::id()));
        for pid in 1..=5_000 {
            std::fs::create_dir_all(table.join(pid.to_string())).unwrap();
        }
        let listed = KernelDir::open(&table).unwrap().numbered().len();
        std::fs::remove_dir_all(&table).unwrap();
        assert_eq!(listed, 5_000);
    }
}
