//! Files that the kernel writes while they are read, such as those of `/proc`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, StatxFlags};

/// What one read of such a file gives at most.
const PAGE: usize = 4096;

/// The file at `path`. Asks for its text at once, because such a file does not know its size and a node has thousands.
pub fn kernel_bytes(path: &Path) -> io::Result<Vec<u8>> {
    whole(File::open(path)?)
}

/// The same as text. A process may call itself by bytes that are none.
pub fn kernel_text(path: &Path) -> io::Result<String> {
    kernel_bytes(path).map(text)
}

/// A file of one record, such as `stat` of a process: what one read gives is all of it. Others give their records
/// piecemeal, and only a second read tells that there are no more.
pub fn kernel_record(path: &Path) -> io::Result<String> {
    record(File::open(path)?)
}

/// A directory whose files are read one after the other: the way to it is gone only once.
#[derive(Debug)]
pub struct KernelDir(OwnedFd);

impl KernelDir {
    /// Opens it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Its entries that are numbers, as far as they can be read.
    pub fn numbered(&self) -> Vec<u32> {
        let entries = Dir::read_from(&self.0).into_iter().flatten().map_while(Result::ok);
        entries.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok()).collect()
    }

    /// What a link in it points to.
    pub fn link(&self, name: &str) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.0, name, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Whether `name` leads to a program that runs with its owner's or its group's rights. No file server is asked.
    pub fn is_set_user_id(&self, name: &str) -> bool {
        let flags = AtFlags::STATX_DONT_SYNC;
        let about = rustix::fs::statx(&self.0, name, flags, StatxFlags::MODE);
        about
            .is_ok_and(|about| Mode::from_raw_mode(about.stx_mode.into()).intersects(Mode::SUID | Mode::SGID))
    }

    /// A file in it that the kernel writes.
    pub fn bytes(&self, name: &str) -> io::Result<Vec<u8>> {
        whole(self.file(name)?)
    }

    /// A file in it, to be read piece by piece.
    pub fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// The text of a file of one record in it.
    pub fn record(&self, name: &str) -> io::Result<String> {
        record(self.file(name)?)
    }
}

/// How long all threads of this process have run; `None` where the kernel does not keep it.
pub fn time_on_processors() -> Option<Duration> {
    of_all_threads(|(ran, _)| ran)
}

/// The same, and how long they waited for a processor meanwhile: for a process that asks itself.
pub fn time_on_and_for_processors() -> Option<Duration> {
    of_all_threads(|(ran, waited)| ran + waited)
}

/// How many times longer the work of this process takes than it would with a processor of its own; `None` where the kernel
/// does not say.
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
    // A thread may end while we look.
    times.flatten().reduce(|all, one| all + one)
}

/// Nanoseconds on a processor, nanoseconds of waiting for one.
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
