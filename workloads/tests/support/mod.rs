//! Real servers on loopback, in folders of their own, that end with the test; and a cable to put in between.

#![allow(
    dead_code,
    missing_docs,
    reason = "each test file takes what it needs of this"
)]

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fencepost_checker::history::Token;
use fencepost_workloads::client::{
    Endpoint, Failure, Lock, Outcome, Reading, Reason, Resource, Steward,
};
use fencepost_workloads::locks::{self, LOCKS};
use fencepost_workloads::protocol::{Options, Settings};
use fencepost_workloads::resources::{self, RESOURCES};
use fencepost_workloads::systems::{self, Employ};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Far longer than anything takes that is awaited.
const PATIENT: Duration = Duration::from_secs(30);

/// How long clients wait for an answer.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Says past the test harness's capture that a test proved nothing.
pub fn skipped(what: &str, package: &str) {
    let words = format!("SKIPPED: {what} is not installed: apt-get install {package}\n");
    let _ = std::io::stderr().write_all(words.as_bytes());
}

/// A server that ends with this.
pub struct Server {
    process: Child,
    pub address: String,
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// A one-member etcd; `None` (and a word) where there is none to start.
    pub fn etcd() -> Option<Self> {
        let Some(program) = on_the_path("etcd") else {
            skipped("etcd", "etcd-server");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let (client, peer) = (free_address(), free_address());
        let peer_url = format!("http://{peer}");
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .args(["--name", "n1", "--logger", "zap", "--data-dir"])
            .arg(folder.path().join("data"))
            .args(["--listen-client-urls", &format!("http://{client}")])
            .args(["--advertise-client-urls", &format!("http://{client}")])
            .args(["--listen-peer-urls", &peer_url])
            .args(["--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("n1={peer_url}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd starts");
        Some(Self {
            process,
            address: client,
            folder,
        })
    }

    /// A PostgreSQL that trusts everybody, or wants `password` of its user `postgres`.
    pub fn postgres(password: Option<&str>) -> Option<Self> {
        let Some(programs) = postgres_programs() else {
            skipped("PostgreSQL", "postgresql");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let secret = folder.path().join("secret");
        std::fs::write(&secret, password.unwrap_or("unused")).expect("a file");
        for path in [folder.path(), &secret] {
            if let Some((user, group)) = postgres_user() {
                chown(path, Some(user), Some(group)).expect("root gives files away");
            }
        }
        let made = as_postgres(&programs.join("initdb"))
            .args(["-A", password.map_or("trust", |_| "scram-sha-256")])
            .args(["-U", "postgres", "--no-sync", "--pwfile"])
            .arg(&secret)
            .arg("-D")
            .arg(&data)
            .stdin(Stdio::null())
            .output()
            .expect("initdb starts");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let address = free_address();
        let port = address.rsplit(':').next().expect("a port");
        let process = as_postgres(&programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args(["-c", "listen_addresses=127.0.0.1", "-c"])
            .arg(format!("port={port}"))
            .args(["-c", "unix_socket_directories="])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("postgres starts");
        Some(Self {
            process,
            address,
            folder,
        })
    }
}

/// The first program of that name on the PATH.
fn on_the_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

/// The folder of those on the PATH, or of the newest of Debian's.
fn postgres_programs() -> Option<PathBuf> {
    let found = on_the_path("postgres").and_then(|program| program.canonicalize().ok());
    if let Some(folder) = found.as_deref().and_then(Path::parent)
        && folder.join("initdb").is_file()
    {
        return Some(folder.to_owned());
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    versions
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("bin/postgres").exists())
        .max_by_key(|path| number(path))
        .map(|path| path.join("bin"))
}

/// PostgreSQL refuses to run as root: then the user `postgres`, as number and group.
fn postgres_user() -> Option<(u32, u32)> {
    let number = |arguments: &[&str]| {
        let told = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8(told.stdout).ok()?.trim().parse().ok()
    };
    match number(&["-u"]) {
        Some(0) => Some((number(&["-u", "postgres"])?, number(&["-g", "postgres"])?)),
        _ => None,
    }
}

fn as_postgres(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if postgres_user().is_some() {
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
    }
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command.current_dir("/");
    command
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
    listener.local_addr().expect("bound").to_string()
}

/// Waits until the server serves, and makes a run's place in it.
pub async fn prepared(system: Employ, address: &str, options: &Options) -> Box<dyn Steward> {
    let steward = employ(system, address, options);
    eventually("the server serves", async || {
        steward.ready().await.map_err(|error| error.0)
    })
    .await;
    steward.prepare().await.expect("a place is made");
    steward
}

pub fn employ(system: Employ, address: &str, options: &Options) -> Box<dyn Steward> {
    let endpoint = Endpoint {
        client: "steward",
        addresses: &[address],
        timeout: TIMEOUT,
        options,
        namespace: &options.namespace,
    };
    system(&endpoint).expect("a usable endpoint")
}

pub fn lock_steward(kind: &str) -> Employ {
    let system = systems::find(LOCKS, kind).expect("a lock");
    system.steward.expect("it is built")
}

pub fn resource_steward(kind: &str) -> Employ {
    let system = systems::find(RESOURCES, kind).expect("a resource");
    system.steward.expect("it is built")
}

/// Asks until it is so.
pub async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENT;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) if Instant::now() > deadline => panic!("{what}: not yet: {error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Options of a run whose keys lie under a name of their own.
pub fn options(lock: &str, resource: &str, token: Option<&str>, fence: Option<&str>) -> Options {
    Options {
        namespace: "fp_test".to_owned(),
        lock_settings: Settings {
            token: token.map(str::to_owned),
            ..Settings::default()
        },
        resource_settings: Settings {
            fence: fence.map(str::to_owned),
            ..Settings::default()
        },
        ..Options::plain(lock, resource, TIMEOUT)
    }
}

pub fn lock_of(client: &str, address: &str, options: &Options) -> Box<dyn Lock> {
    locks::connect(
        &options.lock,
        &Endpoint {
            client,
            addresses: &[address],
            timeout: Duration::from_millis(options.timeout_ms),
            options,
            namespace: &options.namespace,
        },
    )
    .expect("a usable endpoint")
}

pub fn resource_of(client: &str, address: &str, options: &Options) -> Box<dyn Resource> {
    resources::connect(
        &options.resource,
        &Endpoint {
            client,
            addresses: &[address],
            timeout: Duration::from_millis(options.timeout_ms),
            options,
            namespace: &options.namespace,
        },
    )
    .expect("a usable endpoint")
}

pub fn token(value: i64) -> Token {
    Token::from(value)
}

pub fn held() -> Failure {
    Failure::Fail(Reason::Held)
}

pub fn not_held() -> Failure {
    Failure::Fail(Reason::NotHeld)
}

pub fn stale(high_water: Token) -> Failure {
    Failure::Fail(Reason::StaleToken {
        high_water: Some(high_water),
    })
}

/// What an `unknown` says.
pub fn unknown<T: std::fmt::Debug>(outcome: Outcome<T>) -> String {
    match outcome {
        Err(Failure::Unknown(text)) => text,
        other => panic!("not unknown: {other:?}"),
    }
}

/// What a definite failure says, if it is none that a service knows a word for.
pub fn other_failure<T: std::fmt::Debug>(outcome: Outcome<T>) -> String {
    match outcome {
        Err(Failure::Fail(Reason::Other(text))) => text,
        other => panic!("not another failure: {other:?}"),
    }
}

pub fn value(reading: &Reading) -> (Option<&str>, Option<Token>) {
    (reading.value.as_deref(), reading.token)
}

/// A cable to a server: connections through it can be held up, robbed of their answers, or cut.
pub struct Cable {
    pub address: String,
    state: Arc<State>,
    cut: watch::Sender<u64>,
    plugged: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    answers: AtomicU8,
    /// Bytes of answers that came while they did not pass.
    kept_back: AtomicUsize,
}

/// What becomes of answers.
#[derive(Clone, Copy)]
pub enum Answers {
    Pass = 0,
    /// They wait, and come later.
    Wait = 1,
    /// They are lost.
    Lost = 2,
}

impl Cable {
    /// A cable to `server`.
    pub async fn to(server: &str) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a loopback port is free");
        let address = listener.local_addr().expect("bound").to_string();
        let state = Arc::new(State::default());
        let (cut, cuts) = watch::channel(0);
        let (plugged, mut plug) = watch::channel(true);
        let (shared, server) = (Arc::clone(&state), server.to_owned());
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = plug.wait_for(|plugged| !plugged) => return,
                };
                let near = accepted.expect("an accepted connection").0;
                let far = TcpStream::connect(&server).await.expect("the server");
                let (mut asks, mut tells) = near.into_split();
                let (mut answers, mut asked) = far.into_split();
                let mut over = cuts.clone();
                over.mark_unchanged();
                let state = Arc::clone(&shared);
                tokio::spawn(async move {
                    let there = async {
                        let _ = tokio::io::copy(&mut asks, &mut asked).await;
                    };
                    let back = async {
                        let mut bytes = vec![0; 16 * 1024];
                        while let Ok(length @ 1..) = answers.read(&mut bytes).await {
                            let mode = || state.answers.load(Ordering::SeqCst);
                            if mode() != Answers::Pass as u8 {
                                state.kept_back.fetch_add(length, Ordering::SeqCst);
                            }
                            while mode() == Answers::Wait as u8 {
                                tokio::time::sleep(Duration::from_millis(1)).await;
                            }
                            if mode() == Answers::Pass as u8
                                && tells.write_all(&bytes[..length]).await.is_err()
                            {
                                return;
                            }
                        }
                    };
                    tokio::select! {
                        () = there => {}
                        () = back => {}
                        _ = over.changed() => {}
                    }
                });
            }
        });
        Self {
            address,
            state,
            cut,
            plugged,
        }
    }

    pub fn answers(&self, what: Answers) {
        self.state.kept_back.store(0, Ordering::SeqCst);
        self.state.answers.store(what as u8, Ordering::SeqCst);
    }

    /// Waits until the server has answered something that did not pass.
    pub async fn answered(&self) {
        eventually("an answer", async || {
            match self.state.kept_back.load(Ordering::SeqCst) {
                0 => Err("none".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
    }

    /// Ends all connections.
    pub fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Ends all connections, and refuses new ones.
    pub async fn unplug(&self) {
        self.plugged.send_replace(false);
        self.cut();
        eventually(
            "connections are refused",
            async || match TcpStream::connect(&self.address).await {
                Ok(_) => Err("one was made".to_owned()),
                Err(_) => Ok(()),
            },
        )
        .await;
    }
}
