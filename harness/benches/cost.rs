//! What Fencepost costs, measured through the processes and proxies that it ships: `cargo bench -p fencepost`.
//!
//! Absolute times mean little on a shared machine; where it can be, a figure is a ratio against a baseline that is
//! measured in turn with it (A B A B ...), and medians are printed. One argument runs the sections whose names hold it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::clock::RunClock;
use fencepost::proxies::Proxies;
use fencepost::runner::recorder::Recorder;
use fencepost::targets::{Node, NodeCommand, Spawner};
use fencepost_checker::history::{Header, Token, Type};
use fencepost_workloads::client::Endpoint;
use fencepost_workloads::protocol::{Request, Response};
use fencepost_workloads::resources;

const BINARY: &str = env!("CARGO_BIN_EXE_fencepost");
/// How long each side of a pair loads.
const LOAD: Duration = Duration::from_secs(4);
const PAIRS: usize = 3;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "loop-worker") {
        return loop_worker(&words[1..]);
    }
    let wanted = words
        .iter()
        .find(|word| !word.starts_with('-'))
        .cloned()
        .unwrap_or_default();
    let sections: [Section; 6] = [
        ("throughput", throughput),
        ("recorder", recorder),
        ("fence", fence),
        ("pauses", pauses),
        ("proxy", proxy),
        ("report", report),
    ];
    println!("| figure | value | goal |\n| --- | --- | --- |");
    for (name, measure) in sections {
        if name.contains(&wanted) {
            for Row {
                figure,
                value,
                goal,
            } in measure()
            {
                println!("| {figure} | {value} | {goal} |");
            }
        }
    }
}

/// A part of the table, by its name.
type Section = (&'static str, fn() -> Vec<Row>);

/// One line of the table.
struct Row {
    figure: &'static str,
    value: String,
    goal: &'static str,
}

fn row(figure: &'static str, value: String, goal: &'static str) -> Row {
    Row {
        figure,
        value,
        goal,
    }
}

/// A process that is killed when it goes out of scope.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

fn serve(words: &[&str]) -> (Running, SocketAddr) {
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

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Processor microseconds (user and system) that all ended children of this process have used.
fn children_micros() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN)
        .expect("always there");
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64;
    micros(usage.user_time()) + micros(usage.system_time())
}

/// Processor microseconds of one living process, without its children.
fn own_micros(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat[stat.rfind(')')? + 2..].split(' ').collect();
    let ticks: f64 = fields[11].parse::<f64>().ok()? + fields[12].parse::<f64>().ok()?;
    Some(ticks * 1e6 / 100.0)
}

/// Operations a second through the whole harness at `rate = "max"`, against the same five workers' clients looping by
/// themselves through the same kind of proxies.
fn throughput() -> Vec<Row> {
    let (mut with, mut without, mut own, mut whole, mut bare) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let begun = children_micros();
        let (rate, operations, harness) = harnessed();
        with.push(rate);
        own.push(harness / operations);
        whole.push((children_micros() - begun) / operations);
        let begun = children_micros();
        let (rate, operations) = looping();
        without.push(rate);
        bare.push((children_micros() - begun) / operations);
    }
    let ratio = median(
        with.iter()
            .zip(&without)
            .map(|(with, without)| with / without)
            .collect(),
    );
    vec![
        row(
            "operations a second, `rate = \"max\"`, 5 workers, 10 clients",
            format!("{:.0}", median(with)),
            "15,000",
        ),
        row(
            "the same clients looping without the harness",
            format!("{:.0}", median(without)),
            "",
        ),
        row(
            "ratio of the two",
            format!("{:.0} %", 100.0 * ratio),
            "at least 60 %",
        ),
        row(
            "processor time of the harness process, an operation",
            format!("{:.1} us", median(own)),
            "at most 25 us",
        ),
        row(
            "processor time of all processes, an operation, with and without harness",
            format!("{:.0} and {:.0} us", median(whole), median(bare)),
            "",
        ),
    ]
}

/// Rate, operations, and the harness's own processor time.
fn harnessed() -> (f64, f64, f64) {
    let out = folder();
    let suite = out.path().join("max.toml");
    let limit = LOAD.as_secs();
    std::fs::write(
        &suite,
        format!("name = \"max\"\nfault = []\n[run]\nrate = \"max\"\ntime_limit = \"{limit}s\"\n"),
    )
    .expect("written");
    let mut command = Command::new(BINARY);
    command
        .arg("run")
        .arg(&suite)
        .args(["--json", "--out"])
        .arg(out.path());
    let mut run = Running(
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs"),
    );
    let pid = run.0.id();
    let watcher = std::thread::spawn(move || {
        // The load alone: judging and drawing come after it.
        let until = Instant::now() + LOAD;
        let mut micros = 0.0;
        while Instant::now() < until {
            micros = own_micros(pid).unwrap_or(micros);
            std::thread::sleep(Duration::from_millis(20));
        }
        micros
    });
    let mut line = String::new();
    BufReader::new(run.0.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("its result");
    run.0.wait().expect("it ends");
    let end: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let operations = end["stats"]["operations"].as_f64().expect("a number");
    (
        operations / LOAD.as_secs_f64(),
        operations,
        watcher.join().expect("it ends"),
    )
}

/// Five processes with two clients each, of which four write and all read, as the harness makes them do.
fn looping() -> (f64, f64) {
    let data = folder();
    let (_resource, resource) = serve(&["fenced-resource", "--data", text(data.path())]);
    let (_proxy, api) = serve(&["toxiproxy"]);
    let runtime = runtime();
    let proxies = runtime
        .block_on(Proxies::connect(api))
        .expect("the proxy answers");
    let mut workers: Vec<Child> = (0..5)
        .map(|worker| {
            let name = format!("loop-{worker}");
            let listen = runtime
                .block_on(proxies.create(&name, free_address(), resource))
                .expect("created");
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args(["loop-worker", &listen.to_string(), &worker.to_string()]);
            command.stdout(Stdio::piped()).spawn().expect("it runs")
        })
        .collect();
    let counts = workers.iter_mut().map(|worker| {
        let mut line = String::new();
        BufReader::new(worker.stdout.take().expect("a pipe"))
            .read_line(&mut line)
            .expect("its count");
        worker.wait().expect("it ends");
        line.trim().parse::<f64>().expect("a number")
    });
    let operations: f64 = counts.sum();
    (operations / LOAD.as_secs_f64(), operations)
}

/// `loop-worker ADDRESS WORKER`: two clients, each reading in a loop, and the first of workers 0 to 3 writing.
fn loop_worker(words: &[String]) {
    let (address, worker): (String, usize) =
        (words[0].clone(), words[1].parse().expect("a number"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let until = Instant::now() + LOAD;
    let operations: u64 = runtime.block_on(async {
        let mut loops = Vec::new();
        for client in 0..2 {
            let name = format!("c{worker}-{client}");
            let timeout = Duration::from_millis(500);
            let connect = || {
                let endpoint = Endpoint {
                    client: &name,
                    address: &address,
                    timeout,
                };
                resources::connect("reference", &endpoint).expect("a client")
            };
            let key = format!("shard-{}", worker % 4);
            let (reader, read_key) = (connect(), key.clone());
            loops.push(tokio::spawn(async move {
                let mut done = 0_u64;
                while Instant::now() < until {
                    done += u64::from(reader.read(&read_key).await.is_ok());
                }
                done
            }));
            if client == 0 && worker < 4 {
                let (writer, name) = (connect(), name.clone());
                loops.push(tokio::spawn(async move {
                    let mut done = 0_u64;
                    while Instant::now() < until {
                        done += u64::from(
                            writer
                                .write(&key, Token::from(1_u64), &format!("{name}-{done}"))
                                .await
                                .is_ok(),
                        );
                    }
                    done
                }));
            }
        }
        let mut sum = 0;
        for one in loops {
            sum += one.await.expect("no panic");
        }
        sum
    });
    println!("{operations}");
}

/// A recorded event: stamping it, and writing it to disk.
fn recorder() -> Vec<Row> {
    const OPERATIONS: u64 = 200_000;
    let out = folder();
    let path = out.path().join("history.jsonl");
    let header = Header {
        format: 1,
        ..Header::default()
    };
    let (recorder, writer) =
        Recorder::create(&path, header, RunClock::start(), Arc::default(), None).expect("a file");
    let begun = Instant::now();
    let cpu = thread_micros();
    for process in 0..OPERATIONS {
        let mut request = Request {
            process: process % 20,
            client: "c3".into(),
            f: "write".into(),
            lock: Some("shard-3".into()),
            key: Some("shard-3".into()),
            token: Some(Token::from(42_u64)),
            value: Some(format!("c3-{process}")),
            ..Request::default()
        };
        recorder.invoke(&mut request, 0, |_| {});
        let answer = Response {
            high_water: Some(Token::from(42_u64)),
            ..Response::new(request.id, Type::Ok)
        };
        recorder.complete(&answer, 0).expect("open");
    }
    let stamping = (thread_micros() - cpu) / (2.0 * OPERATIONS as f64);
    recorder.close();
    writer.join();
    let until_on_disk = begun.elapsed().as_secs_f64() * 1e6 / (2.0 * OPERATIONS as f64);
    let bytes = std::fs::metadata(&path).expect("written").len() as f64 / (2.0 * OPERATIONS as f64);
    vec![
        row(
            "a recorded event: stamping and handing over",
            format!("{stamping:.2} us"),
            "",
        ),
        row(
            "a recorded event, until all are on disk",
            format!("{until_on_disk:.2} us"),
            "",
        ),
        row(
            "a recorded event in the file",
            format!("{bytes:.0} bytes"),
            "",
        ),
    ]
}

/// Processor microseconds of this thread.
fn thread_micros() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_THREAD)
        .expect("always there");
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64;
    micros(usage.user_time()) + micros(usage.system_time())
}

/// The fenced write against the unfenced one, at the reference resource, 16 writers.
fn fence() -> Vec<Row> {
    let (fenced_data, unfenced_data) = (folder(), folder());
    let (_fenced, fenced) = serve(&["fenced-resource", "--data", text(fenced_data.path())]);
    let (_unfenced, unfenced) = serve(&[
        "fenced-resource",
        "--data",
        text(unfenced_data.path()),
        "--defect",
        "unfenced",
    ]);
    let runtime = runtime();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..PAIRS as u64 {
        with.push(runtime.block_on(writes(fenced, round)));
        without.push(runtime.block_on(writes(unfenced, round)));
    }
    let ratio = median(
        with.iter()
            .zip(&without)
            .map(|(with, without)| with / without)
            .collect(),
    );
    vec![
        row(
            "fenced writes a second at the reference resource, 16 writers",
            format!("{:.0}", median(with)),
            "",
        ),
        row(
            "of the unfenced writes a second",
            format!("{:.0} %", 100.0 * ratio),
            "",
        ),
    ]
}

/// Writes a second, each writer on a key of its own, under tokens that rise from `round` billions.
async fn writes(resource: SocketAddr, round: u64) -> f64 {
    let until = Instant::now() + LOAD / 2;
    let address = resource.to_string();
    let writers: Vec<_> = (0..16)
        .map(|writer| {
            let name = format!("w{writer}");
            let endpoint = Endpoint {
                client: &name,
                address: &address,
                timeout: Duration::from_secs(2),
            };
            let client = resources::connect("reference", &endpoint).expect("a client");
            tokio::spawn(async move {
                let mut done = 0_u64;
                while Instant::now() < until {
                    done += u64::from(
                        client
                            .write(&name, Token::from(round * 1_000_000_000 + done), "value")
                            .await
                            .is_ok(),
                    );
                }
                done
            })
        })
        .collect();
    let mut sum = 0;
    for writer in writers {
        sum += writer.await.expect("no panic");
    }
    sum as f64 / (LOAD / 2).as_secs_f64()
}

/// From the decision to stop a worker until every thread of it is seen in state T.
fn pauses() -> Vec<Row> {
    const PAUSES: usize = 200;
    let spawner = Spawner::start().expect("a thread");
    let marker = format!("bench-{}/w1", std::process::id());
    let command = NodeCommand {
        program: BINARY.into(),
        arguments: vec!["worker".into()],
        marker: marker.clone(),
        log: "/dev/null".into(),
        piped: true,
    };
    let mut child = spawner.spawn(command).expect("it runs");
    // Held open, so that the worker stays.
    let _stdin = child.stdin.take();
    let mut node = Node::new(marker, child);
    let mut took: Vec<f64> = (0..PAUSES)
        .map(|_| {
            let decided = Instant::now();
            node.stop().expect("stopped");
            let seen = decided.elapsed();
            node.resume().expect("resumed");
            seen.as_secs_f64() * 1e3
        })
        .collect();
    node.kill().expect("killed");
    took.sort_by(f64::total_cmp);
    let quantile = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    vec![
        row(
            "from the decision to the evidenced stop, median of 200 pauses",
            format!("{:.2} ms", quantile(0.5)),
            "",
        ),
        row(
            "the same, p99",
            format!("{:.2} ms", quantile(0.99)),
            "under 5 ms",
        ),
        row("the same, greatest", format!("{:.2} ms", quantile(1.0)), ""),
    ]
}

/// A round trip of 64 bytes through the embedded proxy, against the same connection without it.
fn proxy() -> Vec<Row> {
    let echo = TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = echo.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in echo.incoming().flatten() {
            std::thread::spawn(move || {
                stream.set_nodelay(true).expect("a socket");
                let (mut from, mut to) = (stream.try_clone().expect("a socket"), stream);
                let _ = std::io::copy(&mut from, &mut to);
            });
        }
    });
    let (_proxy, api) = serve(&["toxiproxy"]);
    let runtime = runtime();
    let proxies = runtime
        .block_on(Proxies::connect(api))
        .expect("the proxy answers");
    let listen = runtime
        .block_on(proxies.create("echo", free_address(), upstream))
        .expect("created");
    let proxied: SocketAddr = listen.to_string().parse().expect("an address");
    let (mut through, mut direct) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        through.push(round_trip(proxied));
        direct.push(round_trip(upstream));
    }
    let ratio = median(
        through
            .iter()
            .zip(&direct)
            .map(|(through, direct)| through / direct)
            .collect(),
    );
    let (through, direct) = (median(through), median(direct));
    vec![
        row(
            "the embedded proxy adds to a round trip of 64 bytes",
            format!("{:.0} us", through - direct),
            "",
        ),
        row(
            "round trip through it, against the direct one",
            format!("{ratio:.1} times"),
            "",
        ),
    ]
}

/// The median of 2,000 round trips, in microseconds.
fn round_trip(address: SocketAddr) -> f64 {
    use std::io::Read;
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    let mut bytes = [7_u8; 64];
    let trips = (0..2_000).map(|_| {
        let begun = Instant::now();
        stream.write_all(&bytes).expect("sent");
        stream.read_exact(&mut bytes).expect("echoed");
        begun.elapsed().as_secs_f64() * 1e6
    });
    median(trips.collect())
}

/// The report of a run with a million operations, drawn by the binary from the saved run.
fn report() -> Vec<Row> {
    let out = folder();
    let run = saved_run(out.path(), 1_000_000);
    let begun = Instant::now();
    let mut command = Command::new(BINARY);
    let mut child = command
        .arg("report")
        .arg(&run)
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let pid = child.id();
    let mut peak = 0.0_f64;
    let status = loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let high = status.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .trim()
                .trim_end_matches(" kB")
                .parse::<f64>()
                .ok()
        });
        peak = peak.max(high.unwrap_or(0.0) / 1024.0);
        if let Some(status) = child.try_wait().expect("ours") {
            break status;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
    let seconds = begun.elapsed().as_secs_f64();
    let html = std::fs::metadata(run.join("report.html"))
        .expect("drawn")
        .len() as f64
        / 1e6;
    vec![
        row(
            "report of a run with 1,000,000 operations",
            format!("{seconds:.1} s"),
            "under 5 s",
        ),
        row("its memory at most", format!("{peak:.0} MB"), "1 GB"),
        row("its report.html", format!("{html:.1} MB"), "5 MB"),
    ]
}

/// A short real run whose history is replaced by a made-up one of so many operations.
fn saved_run(out: &Path, operations: u64) -> PathBuf {
    let mut command = Command::new(BINARY);
    command
        .args(["run", "--time-limit", "1s", "--json", "--out"])
        .arg(out);
    let output = command.stderr(Stdio::null()).output().expect("it runs");
    let end: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let folder = PathBuf::from(end["folder"].as_str().expect("a path"));
    let history = folder.join("history.jsonl");
    let header = std::fs::read_to_string(&history)
        .expect("written")
        .lines()
        .next()
        .expect("a header")
        .to_owned();
    let mut file = std::io::BufWriter::new(std::fs::File::create(&history).expect("ours"));
    writeln!(file, "{header}").expect("written");
    let mut marks: BTreeMap<u64, u64> = BTreeMap::new();
    for operation in 0..operations {
        let (index, time, client) = (2 * operation, operation * 20_000, operation % 10);
        let lock = client % 4 + 1;
        let head = format!("\"process\":{},\"client\":\"c{}\"", 2 * client, client + 1);
        let token = marks.entry(lock).or_insert(1);
        let (ask, answer) = match operation % 1_000 {
            0..=9 => {
                *token += 1;
                (
                    format!("\"f\":\"acquire\",\"lock\":\"shard-{lock}\",\"ttl\":1000"),
                    format!("\"type\":\"ok\",\"f\":\"acquire\",\"token\":{token}"),
                )
            }
            10..=19 if *token > 1 => (
                format!(
                    "\"f\":\"write\",\"lock\":\"shard-{lock}\",\"key\":\"shard-{lock}\",\"token\":1,\"value\":\"s{operation}\""
                ),
                format!(
                    "\"type\":\"fail\",\"f\":\"write\",\"error\":\"stale-token\",\"high_water\":{token}"
                ),
            ),
            even if even % 2 == 0 => (
                format!(
                    "\"f\":\"write\",\"lock\":\"shard-{lock}\",\"key\":\"shard-{lock}\",\"token\":{token},\"value\":\"v{operation}\""
                ),
                format!("\"type\":\"ok\",\"f\":\"write\",\"high_water\":{token}"),
            ),
            _ => (
                format!("\"f\":\"renew\",\"lock\":\"shard-{lock}\",\"token\":{token}"),
                "\"type\":\"ok\",\"f\":\"renew\"".to_owned(),
            ),
        };
        writeln!(
            file,
            "{{\"index\":{index},\"time\":{time},{head},\"type\":\"invoke\",{ask}}}"
        )
        .expect("written");
        writeln!(
            file,
            "{{\"index\":{},\"time\":{},{head},{answer}}}",
            index + 1,
            time + 10_000
        )
        .expect("written");
    }
    file.flush().expect("written");
    folder
}
