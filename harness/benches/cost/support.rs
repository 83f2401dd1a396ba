//! What the sections share.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The binary that is measured.
pub const BINARY: &str = env!("CARGO_BIN_EXE_fencepost");
/// How long each side of a pair loads.
pub const LOAD: Duration = Duration::from_secs(4);
/// How many pairs.
pub const PAIRS: usize = 5;

/// One line of the table.
pub struct Row {
    /// What was measured.
    pub figure: String,
    /// With its unit.
    pub value: String,
    /// What it should be; empty where there is none.
    pub goal: &'static str,
}

pub fn row(figure: impl Into<String>, value: String, goal: &'static str) -> Row {
    Row {
        figure: figure.into(),
        value,
        goal,
    }
}

/// A process that is killed when it goes out of scope.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

pub fn serve(words: &[&str]) -> (Running, SocketAddr) {
    let address = free_address();
    let mut command = Command::new(BINARY);
    command
        .args(words)
        .arg("--listen")
        .arg(address.to_string())
        .stdout(Stdio::null());
    let running = Running(command.spawn().expect("it runs"));
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < deadline, "{words:?} does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    (running, address)
}

pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
