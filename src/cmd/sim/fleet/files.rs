//! [`FleetFiles`]: the files of a simulated fleet, in a directory that only their owner may read. They are removed at the end.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::cmd::Error;
use crate::report::save::{self, random_word};

/// How many names of directories are tried.
const MAX_NAMES: usize = 100;

/// The files.
#[derive(Debug)]
pub struct FleetFiles {
    directory: PathBuf,
    token: PathBuf,
    /// The path of the kubeconfig and the open file, which nobody can replace meanwhile.
    kubeconfig: (PathBuf, File),
}

impl FleetFiles {
    /// Creates the directory and the token of the recorders, and claims the file of the kubeconfig.
    pub fn create(kubeconfig: Option<&Path>) -> Result<Self, Error> {
        let directory = new_directory(&std::env::temp_dir())?;
        let claimed = claim(&directory, kubeconfig);
        if claimed.is_err() {
            let _ = fs::remove_dir_all(&directory);
        }
        let (token, kubeconfig) = claimed?;
        Ok(Self { directory, token, kubeconfig })
    }

    /// Returns the file with the recorders' token.
    pub fn token(&self) -> &Path {
        &self.token
    }

    /// Returns the directory for the capture of a scenario.
    pub fn capture(&self, scenario: &str) -> PathBuf {
        self.directory.join(scenario)
    }

    /// Writes the kubeconfig for the API server at `address`, and returns its absolute path.
    pub fn write_kubeconfig(&self, address: SocketAddr) -> Result<PathBuf, Error> {
        let (path, mut file) = (std::path::absolute(&self.kubeconfig.0)?, &self.kubeconfig.1);
        file.write_all(kubeconfig(address).as_bytes())
            .map_err(|source| save::Error { path: path.clone(), source })?;
        Ok(path)
    }
}

impl Drop for FleetFiles {
    fn drop(&mut self) {
        // Nothing can be done about a file that cannot be removed.
        let _ = fs::remove_file(&self.kubeconfig.0);
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Creates a directory in `parent`, which other users may write to.
fn new_directory(parent: &Path) -> Result<PathBuf, Error> {
    let mut last = None;
    for number in 0..MAX_NAMES {
        let path = parent.join(format!("plegctl-fleet-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(source) => last = Some(save::Error { path, source }),
        }
    }
    Err(last.map_or_else(|| io::Error::from(io::ErrorKind::AlreadyExists).into(), Error::Write))
}

/// Creates the token of the recorders and an empty kubeconfig. Returns the path of the token, and of the kubeconfig with its
/// file.
fn claim(directory: &Path, kubeconfig: Option<&Path>) -> Result<(PathBuf, (PathBuf, File)), Error> {
    let token = directory.join("token");
    let written = create_file(&token)?.write_all(format!("{}\n", random_word()).as_bytes());
    written.map_err(|source| save::Error { path: token.clone(), source })?;
    let kubeconfig = kubeconfig.map_or_else(|| directory.join("kubeconfig"), Path::to_path_buf);
    let file = create_file(&kubeconfig)?;
    Ok((token, (kubeconfig, file)))
}

/// Creates a file that only its owner may read.
fn create_file(path: &Path) -> Result<File, save::Error> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    created.map_err(|source| save::Error { path: path.to_path_buf(), source })
}

/// Returns a kubeconfig without a credential.
fn kubeconfig(address: SocketAddr) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: sim-fleet\n\
         contexts:\n- name: sim-fleet\n  context: {{cluster: sim-fleet, user: sim-fleet}}\n\
         clusters:\n- name: sim-fleet\n  cluster: {{server: \"http://{address}\"}}\n\
         users:\n- name: sim-fleet\n  user: {{}}\n"
    )
}
