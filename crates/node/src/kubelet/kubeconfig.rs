//! Reads a kubeconfig, or the service account of a pod, as kubectl does, and returns a client for the API server
//! ([`Cluster`]).
//!
//! The user can authenticate with a token, a token file, a client certificate, or a credential program (`exec`, which
//! cloud providers use). User name and password and the old `auth-provider` are not supported.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::host::HostRoot;
use plegctl_base::children::ProcessGroup;

use plegctl_base::report::json;
use plegctl_base::report::load::{LARGEST_SETTING, load};
use plegctl_base::threads;
use plegctl_go_yaml::{Documents, YamlError, YamlKind, YamlNode};

pub use super::cluster::Cluster;
use super::http::{ClientIdentity, HttpClient, PemError, ServerTrust, certificates, encoded};
use super::proxy::ProxyVariables;

/// The directory of a pod's service account.
pub const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The largest kubeconfig in bytes. Most have a few kilobytes; a kubeconfig with many clusters has several hundred.
const LARGEST: usize = 4 * 1024 * 1024;

/// The extension of a cluster whose value a credential program gets.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// The deepest nesting of collections; a kubeconfig has five levels.
const DEEPEST: usize = 32;

/// Why the API server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// No thread can be started to read the files.
    #[error("cannot look for a kubeconfig: {0}")]
    Unread(#[source] io::Error),
    /// The file is not a kubeconfig.
    #[error("`{name}` is not a kubeconfig: {why}")]
    Shape {
        /// The name of the file.
        name: String,
        /// What is wrong with the file.
        why: String,
    },
    /// The file uses a name that it does not define.
    #[error("the kubeconfig `{name}` has no {kind} `{missing}`; it has {}", listed(.known))]
    Missing {
        /// The name of the file.
        name: String,
        /// `context`, `cluster` or `user`.
        kind: &'static str,
        /// The missing name.
        missing: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// The user authenticates in a way that plegctl does not support.
    #[error("the user `{user}` of the kubeconfig `{name}` authenticates by {way}")]
    UnsupportedLogin {
        /// The name of the file.
        name: String,
        /// The user.
        user: String,
        /// The way to authenticate.
        way: &'static str,
    },
    /// The cluster is behind a proxy; plegctl has no client for proxies.
    #[error("`{server}` is to be reached through the proxy of {variable}, and plegctl supports no proxy")]
    Proxy {
        /// The URL of the API server.
        server: String,
        /// What names the proxy: `proxy-url` of the kubeconfig, or an environment variable.
        variable: &'static str,
    },
    /// The credential program did not print a credential.
    #[error("`{command}`, which the kubeconfig runs for a credential, {why}")]
    Exec {
        /// The program.
        command: String,
        /// What the program did instead.
        why: String,
    },
    /// A file cannot be read, or a certificate or key cannot be used.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// No kubeconfig exists, and plegctl does not run in a pod.
    #[error(
        "no kubeconfig: none of --kubeconfig, $KUBECONFIG and ~/.kube/config exists, and this is not a pod \
         with a service account"
    )]
    Nothing,
}

/// Formats a list of names.
fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct File {
    current_context: Option<String>,
    clusters: Vec<Named<ClusterEntry>>,
    contexts: Vec<Named<ContextEntry>>,
    users: Vec<Named<UserEntry>>,
}

/// A named list entry: `{name: …, cluster: …}`. The second key depends on the list.
#[derive(Debug, Deserialize)]
struct Named<T> {
    name: String,
    #[serde(alias = "cluster", alias = "context", alias = "user")]
    entry: T,
    /// The directory of its file. Relative paths in the entry begin there.
    #[serde(skip)]
    base: PathBuf,
}

impl File {
    /// Reads and parses a kubeconfig.
    fn read(path: &Path) -> Result<Self, KubeconfigError> {
        let shape = |why: String| KubeconfigError::Shape { name: path.display().to_string(), why };
        let text = read(path)?;
        if text.len() > LARGEST {
            return Err(shape("it is too large".to_owned()));
        }
        let value = yaml(&text).map_err(shape)?;
        let value = if value.is_null() { Value::Object(Map::new()) } else { value };
        if !value.is_object() {
            return Err(shape("it is not a mapping".to_owned()));
        }
        // Without the position, which is that in the JSON text.
        let wrong = |why: serde_json::Error| shape(json::without_position(&why));
        let mut file: Self = serde_json::from_str(&value.to_string()).map_err(wrong)?;
        let base = path.parent().unwrap_or(Path::new("."));
        let of_clusters = file.clusters.iter_mut().map(|named| &mut named.base);
        // A context contains no file names.
        for entry_base in of_clusters.chain(file.users.iter_mut().map(|named| &mut named.base)) {
            base.clone_into(entry_base);
        }
        Ok(file)
    }

    /// Merges two files as kubectl does: for each name the first entry counts, and the first current context.
    fn followed_by(mut self, next: Self) -> Self {
        self.current_context = self.current_context.filter(|name| !name.is_empty()).or(next.current_context);
        self.clusters.extend(next.clusters);
        self.contexts.extend(next.contexts);
        self.users.extend(next.users);
        self
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct ClusterEntry {
    server: String,
    tls_server_name: Option<String>,
    insecure_skip_tls_verify: bool,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    proxy_url: Option<String>,
    disable_compression: bool,
    extensions: Vec<Extension>,
}

/// An extension of a cluster. One of them has settings for the credential program.
#[derive(Debug, Deserialize)]
struct Extension {
    name: String,
    extension: Value,
}

impl ClusterEntry {
    /// Returns what a credential program learns of the cluster (`client.authentication.k8s.io/v1`). `bundle` has the
    /// certificate authorities, which may come from a file.
    fn for_program(&self, bundle: Option<&[u8]>) -> Value {
        let set = |on: bool| on.then_some(Value::Bool(true));
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty()).map(Value::String);
        let config = self.extensions.iter().find(|extension| extension.name == EXEC_EXTENSION);
        let fields = [
            ("server", Some(Value::String(self.server.clone()))),
            ("tls-server-name", text(&self.tls_server_name)),
            ("insecure-skip-tls-verify", set(self.insecure_skip_tls_verify)),
            ("certificate-authority-data", bundle.map(|bundle| Value::String(STANDARD.encode(bundle)))),
            ("disable-compression", set(self.disable_compression)),
            ("config", config.map(|config| config.extension.clone())),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContextEntry {
    cluster: String,
    user: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct UserEntry {
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    username: Option<String>,
    auth_provider: Option<Value>,
    exec: Option<Exec>,
    #[serde(rename = "as")]
    as_user: Option<String>,
    as_uid: Option<String>,
    as_groups: Option<Vec<String>>,
    as_user_extra: Option<BTreeMap<String, Vec<String>>>,
}

impl UserEntry {
    /// Returns the headers with which kubectl asks the API server to act as another user.
    fn impersonation(&self) -> Result<Vec<(String, String)>, String> {
        let named = |name: &str, values: &[String]| -> Vec<(String, String)> {
            values.iter().map(|value| (name.to_owned(), value.clone())).collect()
        };
        let one = |name, value: &Option<String>| {
            named(name, value.clone().filter(|text| !text.is_empty()).as_slice())
        };
        let mut headers = one("Impersonate-User", &self.as_user);
        let is_user = !headers.is_empty();
        headers.extend(one("Impersonate-Uid", &self.as_uid));
        headers.extend(named("Impersonate-Group", self.as_groups.as_deref().unwrap_or_default()));
        for (key, values) in self.as_user_extra.iter().flatten() {
            headers.extend(named(&format!("Impersonate-Extra-{}", encoded(key)), values));
        }
        if !is_user && !headers.is_empty() {
            return Err("it has as-uid, as-groups or as-user-extra without as".to_owned());
        }
        match headers.iter().find(|(name, value)| !is_header(name, value)) {
            Some((name, _)) => Err(format!("its value for {name} cannot be sent as a header")),
            None => Ok(headers),
        }
    }
}

/// Whether a name and a value can be sent as a header.
fn is_header(name: &str, value: &str) -> bool {
    http::HeaderName::try_from(name).is_ok() && http::HeaderValue::from_str(value).is_ok()
}

impl fmt::Debug for UserEntry {
    /// Omits secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserEntry").field("exec", &self.exec).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Exec {
    api_version: String,
    command: String,
    args: Option<Vec<String>>,
    env: Option<Vec<EnvironmentVariable>>,
    provide_cluster_info: bool,
}

#[derive(Clone, Debug, Deserialize)]
struct EnvironmentVariable {
    name: String,
    value: String,
}

/// The output of a credential program.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExecCredential {
    status: ExecStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExecStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Where to look for a kubeconfig.
#[derive(Clone, Debug, Default)]
pub struct KubeconfigSources {
    /// The file that the user named.
    pub flag: Option<PathBuf>,
    /// `$KUBECONFIG`: file names, separated by colons. The files that exist are merged.
    pub variable: Option<String>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// `host:port` of the API server and the directory of the service account, if plegctl runs in a pod.
    pub pod: Option<(String, PathBuf)>,
    /// The proxies of the environment.
    pub proxies: ProxyVariables,
    /// The root directory of the node, if `flag` is the kubelet's own kubeconfig. File names in the kubeconfig are
    /// then below this root. Credential programs are not run, because the user did not name this kubeconfig.
    pub node: Option<HostRoot>,
}

impl KubeconfigSources {
    /// Reads the environment variables, and looks for the service account of a pod.
    pub fn of_environment(flag: Option<PathBuf>) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let host = variable("KUBERNETES_SERVICE_HOST");
        let pod = host.filter(|_| Path::new(ACCOUNT).join("token").is_file()).map(|host| {
            let host = if host.contains(':') { format!("[{host}]") } else { host };
            let port = variable("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".to_owned());
            (format!("{host}:{port}"), PathBuf::from(ACCOUNT))
        });
        let home = variable("HOME").map(PathBuf::from);
        Self {
            flag,
            variable: variable("KUBECONFIG"),
            home,
            pod,
            node: None,
            proxies: ProxyVariables::of_environment(),
        }
    }

    /// Returns the source for the kubelet's own kubeconfig, which is at `path` on its node.
    pub fn of_kubelet(path: &str, node: &HostRoot) -> Self {
        Self { flag: Some(node.path(path)), node: Some(node.clone()), ..Self::default() }
    }

    /// Returns the files that are merged. Empty if there is no kubeconfig.
    fn paths(&self) -> Vec<PathBuf> {
        let of_variable =
            self.variable.iter().flat_map(|paths| paths.split(':')).filter(|path| !path.is_empty());
        let of_variable: Vec<PathBuf> = of_variable.map(PathBuf::from).collect();
        let of_home = self.home.as_ref().map(|home| home.join(".kube/config")).filter(|path| path.is_file());
        match (&self.flag, of_home) {
            (Some(flag), _) => vec![flag.clone()],
            (None, Some(home)) if of_variable.is_empty() => vec![home],
            (None, _) => of_variable,
        }
    }
}

/// Finds the API server of the context that the user named, else of the current context. This blocks: it reads files,
/// and may run the kubeconfig's credential program for at most `time_limit`.
pub fn cluster(
    sources: &KubeconfigSources,
    context: Option<&str>,
    time_limit: Duration,
) -> Result<Cluster, KubeconfigError> {
    let paths = sources.paths();
    let cluster = match (paths.is_empty(), &sources.pod) {
        (false, _) => of_files(&paths, context, time_limit, sources.node.as_ref())?,
        (true, Some((server, account))) => of_pod(server, account)?,
        (true, None) => return Err(KubeconfigError::Nothing),
    };
    match sources.proxies.variable_for(&cluster.server) {
        Some(variable) => Err(KubeconfigError::Proxy { server: cluster.server, variable }),
        None => Ok(cluster),
    }
}

/// Uses the service account of the pod in which plegctl runs.
fn of_pod(server: &str, account: &Path) -> Result<Cluster, KubeconfigError> {
    let token = read(&account.join("token"))?;
    let bundle = account.join("ca.crt");
    let authorities = certificates(&read(&bundle)?, &bundle.display().to_string())?;
    let client = HttpClient::new(&ServerTrust::Authorities(authorities), None)?;
    Ok(Cluster {
        server: format!("https://{server}"),
        client: client.with_token(Some(String::from_utf8_lossy(&token).trim())),
        context: "the pod's account".to_owned(),
        insecure: false,
    })
}

/// Reads and merges kubeconfig files, and uses the context that the user named or the current context.
fn of_files(
    paths: &[PathBuf],
    context: Option<&str>,
    time_limit: Duration,
    node: Option<&HostRoot>,
) -> Result<Cluster, KubeconfigError> {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let name = names.join(":");
    let shape = |why: String| KubeconfigError::Shape { name: name.clone(), why };
    // Missing files are skipped. If all files are missing, the error names the first of them.
    let existing = paths.iter().filter(|path| paths.len() > 1 && path.exists());
    let existing: Vec<&PathBuf> = existing.collect();
    let existing = if existing.is_empty() { paths.iter().take(1).collect() } else { existing };
    let mut file = File::default();
    for path in existing {
        file = file.followed_by(File::read(path)?);
    }
    let wanted = match context.or(file.current_context.as_deref()) {
        Some(wanted) if !wanted.is_empty() => wanted.to_owned(),
        _ => return Err(shape("it names no current context; give one with --context".to_owned())),
    };
    let context = &named(&file.contexts, &wanted, "context", &name)?.entry;
    let cluster = named(&file.clusters, &context.cluster, "cluster", &name)?;
    // As in kubectl, requests of a context without a user are anonymous.
    let anonymous = Named { name: String::new(), entry: UserEntry::default(), base: PathBuf::new() };
    let user = match context.user.as_str() {
        "" => &anonymous,
        user => named(&file.users, user, "user", &name)?,
    };

    let origin = KubeconfigOrigin { name: &name, node };
    if cluster.entry.proxy_url.as_ref().is_some_and(|url| !url.is_empty()) {
        return Err(KubeconfigError::Proxy { server: cluster.entry.server.clone(), variable: "proxy-url" });
    }
    let impersonation = user.entry.impersonation();
    let impersonation = impersonation.map_err(|why| shape(format!("user `{}`: {why}", user.name)))?;
    let client = client(cluster, user, &origin, time_limit)?.with_headers(&impersonation);
    let cluster = &cluster.entry;
    let server = cluster.server.trim_end_matches('/').to_owned();
    if !server.starts_with("https://") && !server.starts_with("http://") {
        return Err(shape(format!("the server `{server}` of cluster `{}` is not a URL", context.cluster)));
    }
    Ok(Cluster { server, client, context: wanted, insecure: cluster.insecure_skip_tls_verify })
}

/// Returns the entry with the name `wanted`, or an error that lists the names that exist.
fn named<'a, T>(
    list: &'a [Named<T>],
    wanted: &str,
    kind: &'static str,
    name: &str,
) -> Result<&'a Named<T>, KubeconfigError> {
    list.iter().find(|named| named.name == wanted).ok_or_else(|| {
        let known = list.iter().map(|named| named.name.clone()).collect();
        KubeconfigError::Missing { name: name.to_owned(), kind, missing: wanted.to_owned(), known }
    })
}

/// The name of the kubeconfig for messages, and the node to which it belongs.
struct KubeconfigOrigin<'a> {
    name: &'a str,
    node: Option<&'a HostRoot>,
}

impl KubeconfigOrigin<'_> {
    /// Reads a file that the kubeconfig in the directory `base` names.
    fn read(&self, base: &Path, file: &Path) -> Result<Vec<u8>, PemError> {
        let path = base.join(file);
        read(&self.node.map_or_else(|| path.clone(), |node| node.path(&path)))
    }
}

/// Creates the client for a cluster with the credential of a user.
fn client(
    cluster: &Named<ClusterEntry>,
    user: &Named<UserEntry>,
    origin: &KubeconfigOrigin<'_>,
    time_limit: Duration,
) -> Result<HttpClient, KubeconfigError> {
    type DataOrFile = Result<Option<Vec<u8>>, KubeconfigError>;
    let (name, user_name) = (origin.name, &user.name);
    let unsupported =
        |way| KubeconfigError::UnsupportedLogin { name: name.to_owned(), user: user_name.clone(), way };
    let data_or_file = |base: &Path, data: Option<&String>, file: Option<&PathBuf>| -> DataOrFile {
        match (data.filter(|data| !data.is_empty()), file) {
            (Some(data), _) => STANDARD.decode(data.trim()).map(Some).map_err(|why| KubeconfigError::Shape {
                name: name.to_owned(),
                why: format!("its data is not base64: {why}"),
            }),
            (None, Some(file)) => Ok(Some(origin.read(base, file)?)),
            (None, None) => Ok(None),
        }
    };
    let (of_cluster, of_user) = (cluster.base.as_path(), user.base.as_path());
    let (cluster, user) = (&cluster.entry, &user.entry);
    let (data, file) = (cluster.certificate_authority_data.as_ref(), cluster.certificate_authority.as_ref());
    let bundle = data_or_file(of_cluster, data, file)?;
    let trust = match &bundle {
        _ if cluster.insecure_skip_tls_verify => ServerTrust::Insecure,
        Some(bundle) => ServerTrust::Authorities(certificates(bundle, name)?),
        None => ServerTrust::System,
    };
    let (data, file) = (user.client_certificate_data.as_ref(), user.client_certificate.as_ref());
    let mut certificate = data_or_file(of_user, data, file)?;
    let mut key = data_or_file(of_user, user.client_key_data.as_ref(), user.client_key.as_ref())?;
    let mut token = user.token.clone().filter(|token| !token.is_empty());
    if let (None, Some(file)) = (&token, &user.token_file) {
        token = Some(String::from_utf8_lossy(&origin.read(of_user, file)?).trim().to_owned());
    }
    if let (None, None, Some(exec)) = (&token, &certificate, &user.exec) {
        if origin.node.is_some() {
            let way = "a program, which plegctl runs only if you name the kubeconfig (--kubeconfig FILE)";
            return Err(unsupported(way));
        }
        let about_cluster = exec.provide_cluster_info.then(|| cluster.for_program(bundle.as_deref()));
        let status = run(exec, about_cluster, of_user, time_limit)?;
        token = status.token;
        certificate = status.client_certificate_data.map(String::into_bytes);
        key = status.client_key_data.map(String::into_bytes);
    }
    if token.is_none() && certificate.is_none() {
        match (&user.username, &user.auth_provider) {
            (Some(_), _) => {
                return Err(unsupported("user name and password, which plegctl does not support"));
            }
            (None, Some(_)) => return Err(unsupported("an auth-provider, which plegctl does not support")),
            (None, None) => {}
        }
    }
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(ClientIdentity::from_pem(&certificate, &key, name)?),
        _ => None,
    };
    let client = HttpClient::new(&trust, identity.as_ref())?;
    Ok(client.with_token(token.as_deref()).with_server_name(cluster.tls_server_name.clone()))
}

/// Runs a credential program as kubectl does, without a terminal. `about_cluster` describes the cluster, if the program
/// needs that.
#[expect(
    clippy::disallowed_methods,
    reason = "the user's kubeconfig names it, and there is no other way to that credential"
)]
fn run(
    exec: &Exec,
    about_cluster: Option<Value>,
    base: &Path,
    time_limit: Duration,
) -> Result<ExecStatus, KubeconfigError> {
    let failed = |why: String| KubeconfigError::Exec { command: exec.command.clone(), why };
    // A command with a slash is relative to the kubeconfig's directory; other commands are searched in PATH.
    let program =
        if exec.command.contains('/') { base.join(&exec.command) } else { PathBuf::from(&exec.command) };
    let mut spec = Map::from_iter([("interactive".to_owned(), Value::Bool(false))]);
    spec.extend(about_cluster.map(|cluster| ("cluster".to_owned(), cluster)));
    let exec_info = serde_json::json!({
        "kind": "ExecCredential", "apiVersion": exec.api_version, "spec": spec,
    });
    let mut command = Command::new(program);
    command
        .args(exec.args.iter().flatten())
        .envs(exec.env.iter().flatten().map(|variable| (&variable.name, &variable.value)))
        .env("KUBERNETES_EXEC_INFO", exec_info.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (group, stdout) =
        ProcessGroup::start_guarded(&mut command).map_err(|why| failed(format!("cannot be run: {why}")))?;
    let last_line = group.take_stderr().map(|stderr| threads::start("credential", || last_line_of(stderr)));
    let last_line = Cell::new(last_line.transpose().ok().flatten());
    let failed = |why: String| {
        let last_line = last_line.take().and_then(|line| line.wait(STDERR_TIME_LIMIT).ok().flatten());
        failed(last_line.map_or(why.clone(), |line| format!("{why}: {line}")))
    };
    let group = Arc::new(group);
    let threads_group = Arc::clone(&group);
    let closed = Arc::new(AtomicBool::new(false));
    let has_closed = Arc::clone(&closed);
    // A thread waits for the output and for the program's end, so that a program that hangs can be abandoned.
    let answered = threads::with_time_limit(time_limit, move || {
        let (sender, output) = mpsc::channel();
        threads::spawn("credential", move || send_output(stdout, &sender, &has_closed))?;
        let status = threads_group.wait()?;
        whole_output(&output).map(|text| (text, status))
    });
    let answered = answered.map_err(|why| match why.kind() {
        io::ErrorKind::TimedOut => {
            let closed = closed.load(Ordering::Relaxed);
            let what = if closed { "closed its output and did not end" } else { "did not end" };
            failed(format!("{what} within {}", humantime::format_duration(time_limit)))
        }
        _ => failed(format!("has an output that cannot be read: {why}")),
    });
    if answered.is_err() {
        group.end();
    }
    let (text, status) = answered?.map_err(|why| failed(why.to_string()))?;
    if !status.success() {
        return Err(failed(format!("failed: {status}")));
    }
    // serde's message may contain a value, and a value may be a secret.
    let credential: ExecCredential = serde_json::from_slice(&text).map_err(|why| {
        failed(format!("printed no ExecCredential (line {}, column {})", why.line(), why.column()))
    })?;
    let status = credential.status;
    if status.token.is_none() && status.client_certificate_data.is_none() {
        return Err(failed("printed a credential without token and certificate".to_owned()));
    }
    Ok(status)
}

/// The largest output of a credential program that is read, in bytes.
const LARGEST_CREDENTIAL: u64 = 1 << 20;

/// How long plegctl waits for the end of the stderr of a program that has failed: a child that the program has left may keep it
/// open.
const STDERR_TIME_LIMIT: Duration = Duration::from_millis(100);

/// Reads stderr to its end, so that the program never waits for a reader. Returns the last line with text.
fn last_line_of(mut stderr: impl io::Read) -> Option<String> {
    let mut text = Vec::new();
    stderr.by_ref().take(LARGEST_CREDENTIAL).read_to_end(&mut text).ok()?;
    io::copy(&mut stderr, &mut io::sink()).ok()?;
    String::from_utf8_lossy(&text).lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
}

/// Sends each piece of a program's output, and then what ended the reading.
fn send_output(
    stdout: Option<impl io::Read>,
    pieces: &mpsc::Sender<io::Result<Vec<u8>>>,
    has_closed: &AtomicBool,
) {
    let mut rest = stdout.map(|stdout| stdout.take(LARGEST_CREDENTIAL));
    let mut buffer = [0; 4096];
    while let Some(stdout) = &mut rest {
        let piece = stdout.read(&mut buffer).map(|length| buffer.get(..length).unwrap_or_default().to_vec());
        let is_end = !piece.as_ref().is_ok_and(|piece| !piece.is_empty());
        if is_end {
            has_closed.store(true, Ordering::Relaxed);
        }
        // Nobody waits for more if the receiver is gone.
        if pieces.send(piece).is_err() || is_end {
            return;
        }
    }
}

/// Returns the output of a program that has ended. A child that the program has left may keep the output open, so a whole JSON
/// document is enough.
fn whole_output(pieces: &mpsc::Receiver<io::Result<Vec<u8>>>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for piece in pieces {
        let piece = piece?;
        text.extend_from_slice(&piece);
        if piece.is_empty() || serde_json::from_slice::<IgnoredAny>(&text).is_ok() {
            break;
        }
    }
    Ok(text)
}

fn read(path: &Path) -> Result<Vec<u8>, PemError> {
    load(path, LARGEST_SETTING).map_err(|source| PemError::Read { path: path.to_path_buf(), source })
}

/// Parses the first YAML document. Aliases are refused: no kubeconfig uses them, and a few of them can expand to a
/// huge value.
fn yaml(text: &[u8]) -> Result<Value, String> {
    let document = Documents::of(text, DEEPEST).next_document().map_err(|fault| match fault {
        YamlError::Syntax(fault) => fault.to_string(),
        YamlError::TooDeep(_) => "it is nested too deeply".to_owned(),
    })?;
    document.map_or(Ok(Value::Null), value_of)
}

/// The keys with a boolean value that plegctl reads.
const BOOLEAN_KEYS: [&str; 3] = ["insecure-skip-tls-verify", "disable-compression", "provideClusterInfo"];

/// The key whose value plegctl passes on unchanged.
const RAW_KEY: &str = "extension";

/// Converts a YAML node as kubectl does: a key without a value is left out, and a boolean becomes text, except the
/// values of [`BOOLEAN_KEYS`] and below [`RAW_KEY`].
fn value_of(node: YamlNode) -> Result<Value, String> {
    Ok(match node.kind {
        YamlKind::Scalar { text, plain } => scalar(text, plain),
        YamlKind::List(items) => {
            let item = |item| Ok(boolean_to_text(value_of(item)?));
            Value::Array(items.into_iter().map(item).collect::<Result<_, String>>()?)
        }
        YamlKind::Map(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let key = text_of(value_of(key)?);
                let is_raw = key == RAW_KEY;
                let value = if is_raw { raw_value_of(value)? } else { value_of(value)? };
                if !value.is_null() {
                    let keeps_type = is_raw || BOOLEAN_KEYS.contains(&key.as_str());
                    map.insert(key, if keeps_type { value } else { boolean_to_text(value) });
                }
            }
            Value::Object(map)
        }
        YamlKind::Alias => return Err("it has an alias".to_owned()),
    })
}

/// Converts a YAML node to JSON with all its types.
fn raw_value_of(node: YamlNode) -> Result<Value, String> {
    Ok(match node.kind {
        YamlKind::Scalar { text, plain } => {
            let number = || serde_json::from_str(&text).ok().filter(Value::is_number);
            if plain && let Some(number) = number() { number } else { scalar(text, plain) }
        }
        YamlKind::List(items) => items.into_iter().map(raw_value_of).collect::<Result<_, String>>()?,
        YamlKind::Map(entries) => {
            let entry = |(key, value)| Ok((text_of(value_of(key)?), raw_value_of(value)?));
            Value::Object(entries.into_iter().map(entry).collect::<Result<_, String>>()?)
        }
        YamlKind::Alias => return Err("it has an alias".to_owned()),
    })
}

/// Converts a boolean to text and leaves other values unchanged.
fn boolean_to_text(value: Value) -> Value {
    match value {
        Value::Bool(boolean) => Value::String(boolean.to_string()),
        other => other,
    }
}

/// Returns a scalar of YAML as text.
fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Converts a scalar to a boolean, a null or a text. Booleans have the spellings of YAML 1.1 that kubectl accepts.
fn scalar(text: String, plain: bool) -> Value {
    match text.as_str() {
        _ if !plain => Value::String(text),
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => {
            Value::Bool(true)
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => {
            Value::Bool(false)
        }
        "" | "null" | "Null" | "NULL" | "~" => Value::Null,
        _ => Value::String(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_from(script: &str, time_limit: Duration) -> Result<Option<String>, String> {
        let args = Some(vec!["-c".to_owned(), script.to_owned()]);
        let exec = Exec { command: "sh".to_owned(), args, ..Exec::default() };
        run(&exec, None, Path::new("/"), time_limit).map(|status| status.token).map_err(|why| why.to_string())
    }

    const CREDENTIAL: &str = r#"echo '{"status":{"token":"t"}}'"#;

    #[test]
    fn credential_program_has_one_deadline_for_its_output_and_its_end() {
        // On a busy machine, the shell may need a second until it closes its output.
        let lingers = format!("{CREDENTIAL}; exec >&-; sleep 600 >&-");
        let why = token_from(&lingers, Duration::from_secs(5)).unwrap_err();
        assert!(why.ends_with("closed its output and did not end within 5s"), "{why}");
        let why = token_from("sleep 600", Duration::from_millis(300)).unwrap_err();
        assert!(why.ends_with("did not end within 300ms"), "{why}");
    }

    #[test]
    fn credential_counts_even_if_a_child_of_the_program_still_runs() {
        for script in [
            format!("sleep 600 >&- 2>&- & {CREDENTIAL}"),
            format!("sleep 600 2>&- & {CREDENTIAL}"),
            // A daemon is in no group that plegctl could end, and keeps the output open.
            format!("setsid sleep 60 2>&- & {CREDENTIAL}"),
            format!("{CREDENTIAL}; setsid sleep 60 2>&- &"),
        ] {
            let token = token_from(&script, Duration::from_secs(30));
            assert_eq!(token, Ok(Some("t".to_owned())), "{script}");
        }
    }

    #[test]
    fn credential_program_that_wants_the_terminal_is_an_error_at_once() {
        for signal in ["TTIN", "TTOU"] {
            // The kernel sends this signal to a program in the background that uses its terminal.
            let script = format!("kill -{signal} $$; sleep 600");
            let why = token_from(&script, Duration::from_secs(60)).unwrap_err();
            assert!(why.ends_with("wants the terminal, which it does not get"), "{why}");
        }
        let continued = format!("(sleep 0.2; kill -CONT $$) & kill -STOP $$; {CREDENTIAL}");
        assert_eq!(token_from(&continued, Duration::from_secs(60)), Ok(Some("t".to_owned())));
    }

    #[test]
    fn secret_in_a_wrong_place_is_not_repeated() {
        let why = token_from(r#"echo '{"status":"s3cret"}'"#, Duration::from_secs(30)).unwrap_err();
        assert!(why.contains("printed no ExecCredential (line 1") && !why.contains("s3cret"), "{why}");
    }

    /// Returns what the credential program of a kubeconfig gets in `KUBERNETES_EXEC_INFO`.
    fn exec_info(name: &str, cluster_info: &str) -> Value {
        let folder = std::env::temp_dir().join(format!("plegctl-exec-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fleet/pki/authority.crt");
        let script = format!("printf %s \"$KUBERNETES_EXEC_INFO\" > {}/info; {CREDENTIAL}", folder.display());
        let kubeconfig = serde_json::json!({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {
                "server": "https://api:6443", "certificate-authority": authority, "tls-server-name": "kubernetes",
                "extensions": [
                    {"name": "other", "extension": {"x": 1}},
                    {"name": EXEC_EXTENSION, "extension": {"audience": "a", "retries": 3, "strict": true, "no": null}},
                ],
            }}],
            "users": [{"name": "u", "user": {"exec": {
                "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
            }}}],
        });
        let text = kubeconfig.to_string().replace("\"command\":", &format!("{cluster_info}\"command\":"));
        std::fs::write(folder.join("config"), text).unwrap();
        let sources = KubeconfigSources { flag: Some(folder.join("config")), ..KubeconfigSources::default() };
        cluster(&sources, None, Duration::from_secs(30)).unwrap();
        let info = serde_json::from_slice(&std::fs::read(folder.join("info")).unwrap()).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        info
    }

    #[test]
    fn a_credential_program_gets_the_cluster_if_the_kubeconfig_provides_it() {
        let info = exec_info("provided", "\"provideClusterInfo\": true, ");
        let cluster = &info["spec"]["cluster"];
        assert_eq!(
            (&cluster["server"], &cluster["tls-server-name"]),
            (&"https://api:6443".into(), &"kubernetes".into())
        );
        let config = serde_json::json!({"audience": "a", "retries": 3, "strict": true, "no": null});
        assert_eq!(cluster["config"], config);
        let bundle = STANDARD.decode(cluster["certificate-authority-data"].as_str().unwrap()).unwrap();
        assert!(bundle.starts_with(b"-----BEGIN CERTIFICATE-----"));
        assert_eq!(cluster.get("insecure-skip-tls-verify"), None);
        let without = exec_info("withheld", "");
        assert_eq!(without["spec"], serde_json::json!({"interactive": false}));
    }

    fn file(text: &str) -> File {
        serde_json::from_value(yaml(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn key_without_a_value_is_left_out() {
        let file = file(
            "users: null\ncontexts:\nclusters:\n- name: c\n  cluster: {server: ~, tls-server-name: Null}\n",
        );
        assert!(file.users.is_empty() && file.contexts.is_empty());
        assert_eq!(file.clusters[0].entry.server, "");
        assert_eq!(file.clusters[0].entry.tls_server_name, None);
    }

    #[test]
    fn a_boolean_has_the_spellings_of_yaml_and_becomes_text_in_a_text_field() {
        for (word, boolean) in
            [("true", true), ("True", true), ("TRUE", true), ("yes", true), ("False", false)]
        {
            let text = format!(
                "clusters:\n- name: on\n  cluster: {{server: s, insecure-skip-tls-verify: {word}}}\n\
                 users:\n- name: u\n  user: {{token: {word}, exec: {{command: c, args: [no, \"no\"]}}}}\n"
            );
            let file = file(&text);
            assert_eq!(file.clusters[0].entry.insecure_skip_tls_verify, boolean, "{word}");
            assert_eq!(file.clusters[0].name, "true");
            assert_eq!(file.users[0].entry.token, Some(boolean.to_string()));
            let arguments = file.users[0].entry.exec.as_ref().unwrap().args.clone().unwrap();
            assert_eq!(arguments, ["false", "no"]);
        }
    }
}
