//! Reads files that the kernel generates while they are read, such as those in `/proc`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, StatxFlags};

/// The most that one read of such a file returns.
const PAGE: usize = 4096;

/// Reads the file at `path`. It does not ask for the file's size first, because such a file does not know it, and a
/// node has thousands of them.
pub fn kernel_bytes(path: &Path) -> io::Result<Vec<u8>> {
    whole(File::open(path)?)
}

/// Reads the file as text. Invalid UTF-8 is replaced, because a process may have any bytes in its name.
pub fn kernel_text(path: &Path) -> io::Result<String> {
    kernel_bytes(path).map(text)
}

/// Reads a file with one record, such as a process's `stat`. One read returns such a file completely; other files
/// need a second read to find the end.
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

    /// The entries whose names are numbers, as far as they can be read.
    pub fn numbered(&self) -> Vec<u32> {
        let entries = Dir::read_from(&self.0).into_iter().flatten().map_while(Result::ok);
        entries.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok()).collect()
    }

    /// The target of a link in the directory.
    pub fn link(&self, name: &str) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.0, name, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Whether `name` is a set-user-id or set-group-id program. This sends no request to a file server.
    pub fn is_set_user_id(&self, name: &str) -> bool {
        let flags = AtFlags::STATX_DONT_SYNC;
        let about = rustix::fs::statx(&self.0, name, flags, StatxFlags::MODE);
        about
            .is_ok_and(|about| Mode::from_raw_mode(about.stx_mode.into()).intersects(Mode::SUID | Mode::SGID))
    }

    /// Reads a generated file in the directory.
    pub fn bytes(&self, name: &str) -> io::Result<Vec<u8>> {
        whole(self.file(name)?)
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

/// The CPU time of all threads of this process; `None` if the kernel does not record it.
pub fn time_on_processors() -> Option<Duration> {
    of_all_threads(|(ran, _)| ran)
}

/// The CPU time of all threads of this process plus their time of waiting for a CPU.
pub fn time_on_and_for_processors() -> Option<Duration> {
    of_all_threads(|(ran, waited)| ran + waited)
}

/// How many times longer this process needs than it would with a CPU of its own; `None` if the kernel does not record
/// it.
pub fn slowed() -> Option<f64> {
    let (ran, all) = (time_on_processors()?, time_on_and_for_processors()?);
    (!ran.is_zero()).then(|| all.as_secs_f64() / ran.as_secs_f64())
}

fn of_all_threads(time: impl Fn((Duration, Duration)) -> Duration) -> Option<Duration> {
    if !crate::test_settings::sees_load() {
        return None;
    }
    let tasks = KernelDir::open(Path::new("/proc/self/task")).ok()?;
    let times = tasks.numbered().into_iter().map(|thread| {
        let text = tasks.record(&format!("{thread}/schedstat")).ok()?;
        ran_and_waited(&text).map(&time)
    });
    // A thread may end during the loop.
    times.flatten().reduce(|all, one| all + one)
}

/// Parses the nanoseconds on a CPU and the nanoseconds of waiting for a CPU.
fn ran_and_waited(text: &str) -> Option<(Duration, Duration)> {
    let mut words = text.split_ascii_whitespace();
    let mut next = || words.next()?.parse::<u64>().ok().map(Duration::from_nanos);
    Some((next()?, next()?))
}

fn record(file: File) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(PAGE);
    if rustix::io::read(&file, spare_capacity(&mut bytes))? >= PAGE {
        bytes.append(&mut whole(file)?);
    }
    Ok(text(bytes))
}

fn whole(file: File) -> io::Result<Vec<u8>> {
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
    fn the_threads_of_this_process_have_a_state() {
        let tasks = KernelDir::open(Path::new("/proc/self/task")).unwrap();
        let threads = tasks.numbered();
        assert!(!threads.is_empty());
        let running =
            |thread: &&u32| tasks.record(&format!("{thread}/stat")).is_ok_and(|stat| stat.contains(") R "));
        assert!(threads.iter().any(|thread| running(&thread)), "this very thread runs");
        assert!(tasks.record("none").is_err());
    }

    #[test]
    fn time_on_a_processor_and_time_of_waiting_for_one_are_own_time() {
        assert_eq!(
            ran_and_waited("5000 7000 3\n"),
            Some((Duration::from_micros(5), Duration::from_micros(7)))
        );
        assert_eq!(ran_and_waited("5000\n"), None);
        assert_eq!(ran_and_waited(""), None);
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error() {
        assert!(kernel_bytes(Path::new("/proc/0/stat")).is_err());
    }

    #[test]
    fn a_process_table_is_listed_whole_however_long_it_is() {
        let table = std::env::temp_dir().join(format!("plegctl-table-{}", std::process::id()));
        for pid in 1..=5_000 {
            std::fs::create_dir_all(table.join(pid.to_string())).unwrap();
        }
        let listed = KernelDir::open(&table).unwrap().numbered().len();
        std::fs::remove_dir_all(&table).unwrap();
        assert_eq!(listed, 5_000);
    }
}
