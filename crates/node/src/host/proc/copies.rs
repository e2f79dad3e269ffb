//! Process tables in ordinary files, for tests.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

/// A process table in ordinary files, which a test writes. It is deleted when the test ends.
pub struct ProcTable(pub PathBuf);

/// A process that a test writes into a [`ProcTable`].
#[derive(Clone, Copy)]
pub struct TableProcess<'a> {
    /// The name of its program.
    pub comm: &'a str,
    /// Its real, effective, saved and file-system user.
    pub uids: [u32; 4],
    /// The process ids in the line `NSpid`: one for each PID namespace.
    pub namespace_pids: &'a str,
    /// Its PID namespace.
    pub pid_namespace: &'a str,
    /// Its mount namespace.
    pub mount_namespace: &'a str,
    /// Its control group.
    pub cgroup: &'a str,
    /// Its program, below the root of the table.
    pub program: &'a str,
    /// Its command line.
    pub line: &'a str,
}

/// A kubelet as kubeadm installs it.
pub const KUBELET: TableProcess<'static> = TableProcess {
    comm: "kubelet",
    uids: [0; 4],
    namespace_pids: "7",
    pid_namespace: "pid:[1]",
    mount_namespace: "mnt:[1]",
    cgroup: "/system.slice/kubelet.service",
    program: "usr/bin/kubelet",
    line: "kubelet --v=2",
};

impl ProcTable {
    /// Creates a table whose only process is systemd.
    pub fn new(name: &str) -> io::Result<Self> {
        // Two tests may use the same name.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plegctl-trust-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        let table = Self(path);
        let first = TableProcess { comm: "systemd", program: "sbin/init", cgroup: "/init.scope", ..KUBELET };
        table.process(1, &first)?;
        Ok(table)
    }

    /// Writes a process into the table.
    pub fn process(&self, pid: u32, written: &TableProcess<'_>) -> io::Result<()> {
        let dir = self.proc().join(pid.to_string());
        for sub in ["ns", "task"] {
            fs::create_dir_all(dir.join(sub))?;
        }
        let [real, effective, saved, files] = written.uids;
        let status = format!(
            "Name:\t{}\nUid:\t{real}\t{effective}\t{saved}\t{files}\nNSpid:\t{}\n",
            written.comm, written.namespace_pids
        );
        fs::write(dir.join("status"), status)?;
        fs::write(dir.join("stat"), format!("{pid} ({}) S 1 0 0", written.comm))?;
        fs::write(dir.join("comm"), format!("{}\n", written.comm))?;
        fs::write(dir.join("cgroup"), format!("0::{}\n", written.cgroup))?;
        fs::write(dir.join("cmdline"), written.line.replace(' ', "\0"))?;
        symlink(written.pid_namespace, dir.join("ns/pid"))?;
        symlink(written.mount_namespace, dir.join("ns/mnt"))?;
        let program = self.0.join(written.program);
        fs::create_dir_all(program.parent().unwrap_or(&self.0))?;
        fs::write(&program, "")?;
        symlink(&program, dir.join("exe"))
    }

    /// The directory that stands for `/proc`.
    pub fn proc(&self) -> PathBuf {
        self.0.join("proc")
    }
}

impl Drop for ProcTable {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
