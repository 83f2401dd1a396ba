//! The worker and the reference clients, against a stand-in.
//!
//! The stand-in is no lock service and no resource: it answers whatever the test's script says, down to half an
//! answer, and counts what arrives. So these tests prove what the clients make of an answer, and that each
//! operation is sent once; they prove nothing about a real service.

mod stand_in;

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fencepost_checker::history::Token;
use fencepost_workloads::client::{
    Endpoint, Failure, Grant, Lock, Reading, Reason, Resource, Written,
};
use fencepost_workloads::protocol::Options;
use fencepost_workloads::worker::{LINE_LIMIT, WorkerError};
use fencepost_workloads::{locks, resources, worker};
use serde_json::{Value, json};
use stand_in::{Reply, Seen, StandIn};

/// Far longer than any answer of the stand-in takes.
const PATIENT: Duration = Duration::from_secs(30);

fn token(value: i128) -> Token {
    Token::new(value).expect("in range")
}

fn lock_at(address: &str, timeout: Duration) -> Box<dyn Lock> {
    let options = Options::plain("reference", "reference", timeout);
    locks::connect(
        "reference",
        &Endpoint {
            client: "c1",
            addresses: &[address],
            timeout,
            options: &options,
            namespace: &options.namespace,
        },
    )
    .expect("a usable endpoint")
}

fn resource_at(address: &str, timeout: Duration) -> Box<dyn Resource> {
    let options = Options::plain("reference", "reference", timeout);
    resources::connect(
        "reference",
        &Endpoint {
            client: "c1",
            addresses: &[address],
            timeout,
            options: &options,
            namespace: &options.namespace,
        },
    )
    .expect("a usable endpoint")
}

/// Outcomes as text, so that a table can hold them: `ok ...`, `fail ...`, `unknown ...`.
fn told<T>(outcome: Result<T, Failure>, ok: impl FnOnce(T) -> String) -> String {
    match outcome {
        Ok(answer) => format!("ok {}", ok(answer)),
        Err(Failure::Fail(Reason::StaleToken {
            high_water: Some(mark),
        })) => format!("fail stale-token {mark}"),
        Err(Failure::Fail(reason)) => format!("fail {reason}"),
        Err(Failure::Unknown(text)) => format!("unknown {text}"),
    }
}

/// Carries out one operation, named by its word.
async fn outcome(operation: &str, address: &str, timeout: Duration) -> String {
    let (second, none) = (Duration::from_secs(1), Duration::ZERO);
    let grant = |Grant { token, ttl }: Grant| format!("{token} {}", ttl.expect("told").as_millis());
    match operation {
        "acquire" => told(
            lock_at(address, timeout).acquire("a", second, none).await,
            grant,
        ),
        "renew" => told(
            lock_at(address, timeout).renew("a", token(7), second).await,
            grant,
        ),
        "release" => told(
            lock_at(address, timeout).release("a", token(7)).await,
            |()| "released".to_owned(),
        ),
        "write" => told(
            resource_at(address, timeout)
                .write("a", token(7), "c1-1")
                .await,
            |Written { high_water }| format!("{}", high_water.expect("told")),
        ),
        "read" => told(
            resource_at(address, timeout).read("a").await,
            |Reading {
                 value,
                 token,
                 high_water,
             }| {
                format!(
                    "{value:?} {:?} {}",
                    token.map(Token::value),
                    high_water.expect("told")
                )
            },
        ),
        other => panic!("no operation {other}"),
    }
}

const ALL: [&str; 5] = ["acquire", "renew", "release", "write", "read"];

#[tokio::test]
async fn only_answers_of_the_protocol_are_definite() {
    #[rustfmt::skip]
    let table: &[(&str, u16, &str, &str)] = &[
        ("acquire", 200, r#"{"token":42,"ttl_ms":900}"#, "ok 42 900"),
        ("acquire", 200, r#"{"token":18446744073709551615,"ttl_ms":900}"#, "ok 18446744073709551615 900"),
        ("acquire", 200, r#"{"token":-9223372036854775808,"ttl_ms":1,"more":0}"#, "ok -9223372036854775808 1"),
        ("acquire", 200, r#"{"token":18446744073709551616,"ttl_ms":900}"#, "unknown unexpected answer 200 "),
        ("acquire", 200, r#"{"token":42.0,"ttl_ms":900}"#, "unknown unexpected answer 200 "),
        ("acquire", 200, r#"{"ttl_ms":900}"#, "unknown unexpected answer 200 "),
        ("acquire", 200, "<html>welcome</html>", r#"unknown unexpected answer 200 "<html>welcome</html>""#),
        ("acquire", 200, "", "unknown unexpected answer 200 without a body"),
        ("acquire", 409, r#"{"error":"held"}"#, "fail held"),
        ("acquire", 409, r#"{"error":"token-exhausted"}"#, "fail token-exhausted"),
        ("acquire", 409, r#"{"error":"not-held"}"#, "unknown unexpected answer 409 not-held"),
        ("acquire", 409, "conflict", r#"unknown unexpected answer 409 "conflict""#),
        ("acquire", 429, r#"{"error":"too-many","message":"10000 wait"}"#, "fail 429 too-many: 10000 wait"),
        ("acquire", 503, r#"{"error":"overloaded"}"#, "unknown unexpected answer 503 overloaded"),
        ("renew", 200, r#"{"token":7,"ttl_ms":900}"#, "ok 7 900"),
        ("renew", 409, r#"{"error":"not-held"}"#, "fail not-held"),
        ("renew", 409, r#"{"error":"held"}"#, "unknown unexpected answer 409 held"),
        ("release", 200, "{}", "ok released"),
        ("release", 200, "", "ok released"),
        ("release", 409, r#"{"error":"not-held"}"#, "fail not-held"),
        ("write", 200, r#"{"high_water":7}"#, "ok 7"),
        ("write", 200, "{}", "unknown unexpected answer 200 "),
        ("write", 409, r#"{"error":"stale-token","high_water":18446744073709551615}"#, "fail stale-token 18446744073709551615"),
        ("write", 409, r#"{"error":"stale-token","high_water":1e3}"#, "unknown unexpected answer 409 stale-token"),
        ("write", 409, r#"{"error":"stale-token"}"#, "unknown unexpected answer 409 stale-token"),
        ("write", 503, r#"{"error":"overloaded"}"#, "fail 503 overloaded"),
        ("write", 503, r#"{"error":"unavailable"}"#, "unknown unexpected answer 503 unavailable"),
        ("write", 503, "", "unknown unexpected answer 503 without a body"),
        ("read", 200, r#"{"value":"c3-17","token":42,"high_water":43}"#, r#"ok Some("c3-17") Some(42) 43"#),
        ("read", 200, r#"{"value":null,"high_water":0}"#, "ok None None 0"),
        ("read", 200, r#"{"high_water":0}"#, "unknown unexpected answer 200 "),
        ("read", 200, r#"{"value":17,"token":42,"high_water":43}"#, "unknown unexpected answer 200 "),
        ("read", 503, r#"{"error":"overloaded"}"#, "fail 503 overloaded"),
    ];
    for (operation, status, body, expected) in table {
        let service = StandIn::always(*status, body);
        let told = outcome(operation, &service.address, PATIENT).await;
        // What an unexpected answer quotes is for people; that it is unknown is the point.
        let exact = !expected.ends_with(' ');
        assert!(
            if exact {
                told == *expected
            } else {
                told.starts_with(expected)
            },
            "{operation} {status} {body}: {told}"
        );
        assert_eq!(service.seen().len(), 1, "{operation} {status} {body}");
    }
}

#[tokio::test]
async fn a_bad_request_is_definite_and_any_other_status_is_unknown_for_every_operation() {
    let message = r#"{"error":"bad-request","message":"the token is missing"}"#;
    #[rustfmt::skip]
    let table = [
        (400, message, "fail 400 bad-request: the token is missing"),
        (400, "", "fail 400 without a body"),
        (302, "", "unknown unexpected answer 302 without a body"),
        (404, r#"{"error":"not-found"}"#, "unknown unexpected answer 404 not-found"),
        (500, r#"{"error":"storage"}"#, "unknown unexpected answer 500 storage"),
        (502, "bad gateway", r#"unknown unexpected answer 502 "bad gateway""#),
    ];
    for operation in ALL {
        for (status, body, expected) in table {
            let service = StandIn::always(status, body);
            assert_eq!(
                outcome(operation, &service.address, PATIENT).await,
                expected,
                "{operation}"
            );
            assert_eq!(
                service.seen().len(),
                1,
                "{operation} {status}: sent once, and no redirect followed"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_that_does_not_arrive_whole_is_unknown_and_nothing_is_sent_again() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"token\":42,";
    let table = [
        (
            "closed before an answer",
            "",
            "unknown the connection failed: ",
        ),
        (
            "closed in the head",
            "HTTP/1.1 200 OK\r\ncontent-le",
            "unknown the connection failed: ",
        ),
        ("closed in the body", cut, "unknown the connection failed: "),
        (
            "no HTTP at all",
            "220 mail.example.org ESMTP\r\n",
            "unknown the connection failed: ",
        ),
    ];
    for operation in ALL {
        for (what, bytes, expected) in table {
            let service = StandIn::start(move |_| Reply::Bytes(bytes));
            let told = outcome(operation, &service.address, PATIENT).await;
            assert!(told.starts_with(expected), "{operation}, {what}: {told}");
            assert_eq!(service.seen().len(), 1, "{operation}, {what}");
        }
    }
}

#[tokio::test]
async fn a_late_answer_is_unknown() {
    for operation in ALL {
        let service = StandIn::start(|_| Reply::Silence);
        let told = outcome(operation, &service.address, Duration::from_millis(250)).await;
        assert_eq!(told, "unknown no answer in time", "{operation}");
        let deadline = Instant::now() + PATIENT;
        while service.seen().is_empty() && Instant::now() < deadline {
            thread::yield_now();
        }
        assert_eq!(service.seen().len(), 1, "{operation}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_cut_off_and_unknown() {
    let service = StandIn::start(|_| Reply::Answer(200, "x".repeat(500_000)));
    let told = outcome("read", &service.address, PATIENT).await;
    assert!(
        told.starts_with("unknown the answer is longer than "),
        "{told}"
    );
}

#[tokio::test]
async fn the_longest_value_is_read_even_where_every_byte_of_it_is_escaped() {
    let value = "\u{1}".repeat(64 * 1024);
    let service = StandIn::always(
        200,
        &json!({"value": value, "token": 7, "high_water": 7}).to_string(),
    );
    let reading = resource_at(&service.address, PATIENT)
        .read("a")
        .await
        .expect("an answer");
    assert_eq!(reading.value.as_deref(), Some(value.as_str()));
}

#[tokio::test]
async fn a_refused_connection_is_definite_because_no_request_left() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
    let address = listener
        .local_addr()
        .expect("a bound listener has an address")
        .to_string();
    drop(listener);
    for operation in ALL {
        let told = outcome(operation, &address, PATIENT).await;
        assert!(
            told.starts_with("fail no connection could be made: "),
            "{operation}: {told}"
        );
    }
}

#[tokio::test]
async fn a_kept_connection_that_closes_under_a_request_costs_its_outcome_and_no_second_request() {
    let mut answers = 0;
    let service = StandIn::start(move |_| {
        answers += 1;
        match answers {
            2 => Reply::Bytes(""),
            _ => Reply::Answer(200, r#"{"high_water":7}"#.to_owned()),
        }
    });
    let resource = resource_at(&service.address, PATIENT);
    let accepted = Ok(Written {
        high_water: Some(token(7)),
    });
    assert_eq!(resource.write("a", token(7), "first").await, accepted);
    let lost = resource.write("a", token(7), "second").await;
    assert!(matches!(lost, Err(Failure::Unknown(_))), "{lost:?}");
    assert_eq!(resource.write("a", token(7), "third").await, accepted);
    let bodies: Vec<String> = service.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(bodies, ["first", "second", "third"]);
}

#[tokio::test]
async fn an_acquire_waits_for_its_answer_as_much_longer_as_it_queues() {
    // Queueing takes longer than any other answer may.
    let service = StandIn::start(|_| {
        thread::sleep(Duration::from_millis(300));
        Reply::Answer(200, r#"{"token":42,"ttl_ms":900}"#.to_owned())
    });
    let lock = lock_at(&service.address, Duration::from_millis(100));
    let grant = lock.acquire("a", Duration::from_secs(1), PATIENT).await;
    assert_eq!(
        grant,
        Ok(Grant {
            token: Token::from(42_u64),
            ttl: Some(Duration::from_millis(900))
        })
    );
}

#[tokio::test]
async fn requests_stand_on_the_wire_as_the_services_read_them() {
    let service = StandIn::always(200, r#"{"token":7,"ttl_ms":1,"value":null,"high_water":7}"#);
    let (lock, resource) = (
        lock_at(&service.address, PATIENT),
        resource_at(&service.address, PATIENT),
    );
    let (ttl, wait) = (Duration::from_secs(2), Duration::from_millis(500));
    assert!(lock.acquire("a/b ?#%é", ttl, wait).await.is_ok());
    assert!(lock.renew("a", Token::MAX, ttl).await.is_ok());
    assert!(lock.release("a", Token::MIN).await.is_ok());
    assert!(resource.write("k/1", Token::MAX, "c1-1 é\n").await.is_ok());
    assert!(resource.read("k/1").await.is_ok());

    let seen = service.seen();
    let lines: Vec<&str> = seen.iter().map(|seen| seen.line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "POST /v1/locks/a%2Fb%20%3F%23%25%C3%A9/acquire",
            "POST /v1/locks/a/renew",
            "POST /v1/locks/a/release",
            "PUT /v1/keys/k%2F1",
            "GET /v1/keys/k%2F1",
        ]
    );
    assert_eq!(
        seen[0].body,
        r#"{"client":"c1","ttl_ms":2000,"wait_ms":500}"#
    );
    assert_eq!(
        seen[1].body,
        r#"{"client":"c1","token":18446744073709551615,"ttl_ms":2000}"#
    );
    assert_eq!(
        seen[2].body,
        r#"{"client":"c1","token":-9223372036854775808}"#
    );
    assert_eq!(seen[3].body, "c1-1 é\n");
    for header in ["fencing-token: 18446744073709551615", "fencing-client: c1"] {
        assert!(
            seen[3].headers.iter().any(|sent| sent == header),
            "{header} in {:?}",
            seen[3].headers
        );
    }
}

/// A worker on a thread, behind two pipes, as the harness has it.
struct Piped {
    requests: PipeWriter,
    responses: BufReader<PipeReader>,
    thread: JoinHandle<Result<(), WorkerError>>,
}

impl Piped {
    fn start() -> Self {
        let (stdin, requests) = std::io::pipe().expect("a pipe");
        let (responses, stdout) = std::io::pipe().expect("a pipe");
        let thread = thread::spawn(move || worker::run(stdin, stdout));
        Self {
            requests,
            responses: BufReader::new(responses),
            thread,
        }
    }

    fn greeted(hello: &Value) -> Self {
        let mut worker = Self::start();
        worker.send(hello);
        worker
    }

    fn send(&mut self, line: &Value) {
        self.requests
            .write_all(format!("{line}\n").as_bytes())
            .expect("the worker listens");
    }

    fn response(&mut self) -> Value {
        response(&mut self.responses)
    }

    /// Ends the input, and tells how the worker ended and what it still said.
    fn end(self) -> (Result<(), WorkerError>, String) {
        let Self {
            requests,
            mut responses,
            thread,
        } = self;
        drop(requests);
        let mut rest = String::new();
        responses.read_to_string(&mut rest).expect("text");
        (thread.join().expect("no panic"), rest)
    }
}

fn response(responses: &mut impl BufRead) -> Value {
    let mut line = String::new();
    responses.read_line(&mut line).expect("text");
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

fn hello(lock: &str, resource: &str) -> Value {
    json!({
        "f": "hello",
        "clients": ["c1", "c2"],
        "links": {"lock": lock, "resource": resource},
        "options": {"lock": "reference", "resource": "reference", "timeout_ms": 30_000},
    })
}

/// A hello whose services are never spoken to.
fn idle_hello() -> Value {
    hello("127.0.0.1:1", "127.0.0.1:1")
}

fn lock_script(seen: &Seen) -> Reply {
    let (status, body) = match seen.line.rsplit('/').next() {
        Some("acquire") => (200, r#"{"token":18446744073709551615,"ttl_ms":900}"#),
        Some("renew") => (409, r#"{"error":"not-held"}"#),
        _ => (500, r#"{"error":"storage"}"#),
    };
    Reply::Answer(status, body.to_owned())
}

fn resource_script(seen: &Seen) -> Reply {
    match seen.line.as_str() {
        "PUT /v1/keys/k" => Reply::Answer(
            409,
            r#"{"error":"stale-token","high_water":18446744073709551615}"#.to_owned(),
        ),
        "PUT /v1/keys/fresh" => Reply::Answer(200, r#"{"high_water":5}"#.to_owned()),
        "GET /v1/keys/k" => Reply::Answer(
            200,
            r#"{"value":"c1-1","token":18446744073709551614,"high_water":18446744073709551615}"#
                .to_owned(),
        ),
        _ => Reply::Bytes(""),
    }
}

/// One request of each kind and the response that both workers give, but for the text of an `info`.
fn conversation() -> Vec<(Value, Value)> {
    let max = u64::MAX;
    vec![
        (
            json!({"id":1,"process":1,"client":"c1","f":"acquire","lock":"a","ttl_ms":1000,"wait_ms":5}),
            json!({"id":1,"type":"ok","token":max,"ttl_ms":900}),
        ),
        (
            json!({"id":2,"process":1,"client":"c1","f":"renew","lock":"a","token":max,"ttl_ms":1000}),
            json!({"id":2,"type":"fail","error":"not-held"}),
        ),
        (
            json!({"id":3,"process":1,"client":"c1","f":"release","lock":"a","token":max}),
            json!({"id":3,"type":"info"}),
        ),
        (
            json!({"id":4,"process":2,"client":"c2","f":"write","lock":"a","key":"k","token":5,"value":"c2-1"}),
            json!({"id":4,"type":"fail","error":"stale-token","high_water":max}),
        ),
        (
            json!({"id":5,"process":2,"client":"c2","f":"write","lock":"a","key":"fresh","token":5,"value":"c2-2"}),
            json!({"id":5,"type":"ok","high_water":5}),
        ),
        (
            json!({"id":6,"process":2,"client":"c2","f":"read","key":"k"}),
            json!({"id":6,"type":"ok","value":"c1-1","token":max - 1,"high_water":max}),
        ),
        (
            json!({"id":7,"process":2,"client":"c2","f":"read","key":"lost"}),
            json!({"id":7,"type":"info"}),
        ),
    ]
}

/// Leaves out the text of an `info`, after making sure that there is one.
fn without_info_text(mut response: Value) -> Value {
    if response["type"] == "info" {
        let text = response
            .as_object_mut()
            .and_then(|fields| fields.remove("error"));
        assert!(
            text.as_ref()
                .and_then(Value::as_str)
                .is_some_and(|text| !text.is_empty()),
            "{response}: {text:?}"
        );
    }
    response
}

#[test]
fn a_worker_answers_every_kind_of_request() {
    let (lock, resource) = (StandIn::start(lock_script), StandIn::start(resource_script));
    let mut worker = Piped::greeted(&hello(&lock.address, &resource.address));
    for (request, expected) in conversation() {
        worker.send(&request);
        assert_eq!(without_info_text(worker.response()), expected);
    }
    let (ended, rest) = worker.end();
    assert!(ended.is_ok() && rest.is_empty(), "{ended:?} {rest:?}");
    assert_eq!((lock.seen().len(), resource.seen().len()), (3, 4));
}

#[test]
fn the_example_worker_in_python_answers_the_same() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/my_worker.py");
    let started = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = started else {
        // Past the capture of the test runner, so that everybody sees it.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED the_example_worker_in_python_answers_the_same: there is no python3\n",
        );
        return;
    };
    let (lock, resource) = (StandIn::start(lock_script), StandIn::start(resource_script));
    let mut requests = python.stdin.take().expect("piped");
    let mut responses = BufReader::new(python.stdout.take().expect("piped"));
    writeln!(requests, "{}", hello(&lock.address, &resource.address)).expect("the worker listens");
    for (request, expected) in conversation() {
        writeln!(requests, "{request}").expect("the worker listens");
        assert_eq!(without_info_text(response(&mut responses)), expected);
    }
    drop(requests);
    assert!(python.wait().expect("a child of ours").success());
    assert_eq!((lock.seen().len(), resource.seen().len()), (3, 4));
}

#[test]
fn a_response_leaves_when_its_operation_is_done_and_not_in_the_order_of_requests() {
    let (tell, told) = mpsc::channel();
    let mut told = Some(told);
    let resource = StandIn::start(move |seen| {
        let answer = r#"{"value":null,"high_water":0}"#.to_owned();
        match seen.line.as_str() {
            "GET /v1/keys/slow" => {
                Reply::AnswerOnceTold(told.take().expect("asked once"), 200, answer)
            }
            _ => Reply::Answer(200, answer),
        }
    });
    let mut worker = Piped::greeted(&hello("127.0.0.1:1", &resource.address));
    worker.send(&json!({"id":1,"process":1,"client":"c1","f":"read","key":"slow"}));
    worker.send(&json!({"id":2,"process":2,"client":"c1","f":"read","key":"quick"}));
    worker.send(&json!({"id":3,"process":3,"client":"c2","f":"read","key":"quick"}));
    let mut quick = [
        worker.response()["id"].clone(),
        worker.response()["id"].clone(),
    ];
    quick.sort_by_key(Value::as_u64);
    assert_eq!(quick, [json!(2), json!(3)]);
    tell.send(()).expect("the stand-in waits");
    assert_eq!(
        worker.response(),
        json!({"id":1,"type":"ok","high_water":0})
    );
}

#[test]
fn an_announced_write_leaves_only_after_its_go() {
    let resource = StandIn::start(|_| Reply::Answer(200, r#"{"high_water":5}"#.to_owned()));
    let mut worker = Piped::greeted(&hello("127.0.0.1:1", &resource.address));
    worker.send(&json!({
        "id":1,"process":1,"client":"c1","f":"write","lock":"a","key":"k","token":5,"value":"v","announce":true
    }));
    assert_eq!(worker.response(), json!({"id":1,"type":"invoke"}));
    assert_eq!(resource.seen().len(), 0, "nothing has left");
    worker.send(&json!({"id":1,"process":1,"client":"c1","f":"go"}));
    assert_eq!(
        worker.response(),
        json!({"id":1,"type":"ok","high_water":5})
    );
    assert_eq!(resource.seen().len(), 1);
}

#[test]
fn a_client_that_looks_at_its_clock_decides_against_a_write_without_a_lease() {
    let resource = StandIn::start(|_| Reply::Answer(200, r#"{"high_water":5}"#.to_owned()));
    let mut hello = hello("127.0.0.1:1", &resource.address);
    hello["options"]["plant"] = json!("clock-check");
    let mut worker = Piped::greeted(&hello);
    worker.send(&json!({
        "id":1,"process":1,"client":"c1","f":"write","lock":"a","key":"k","token":5,"value":"v","announce":true
    }));
    assert_eq!(
        worker.response(),
        json!({"id":1,"type":"fail","error":"not-held"})
    );
    assert_eq!(resource.seen().len(), 0);
}

#[test]
fn the_end_of_the_input_ends_the_worker_with_operations_still_open() {
    let resource = StandIn::start(|_| Reply::Silence);
    let mut worker = Piped::greeted(&hello("127.0.0.1:1", &resource.address));
    worker.send(&json!({"id":1,"process":1,"client":"c1","f":"read","key":"k"}));
    let (ended, rest) = worker.end();
    assert!(ended.is_ok() && rest.is_empty(), "{ended:?} {rest:?}");
}

#[test]
fn a_request_that_cannot_be_carried_out_is_a_definite_failure_that_says_what_is_right() {
    let mut worker = Piped::greeted(&idle_hello());
    let table = [
        (
            json!({"client":"c9","f":"read","key":"k"}),
            r#"this worker runs no client "c9""#,
        ),
        (
            json!({"client":"c1","f":"steal"}),
            r#""steal" is no operation: acquire, renew, release, write, cas, append or read is right"#,
        ),
        (
            json!({"client":"c1","f":"acquire","ttl_ms":1}),
            r#"acquire needs the field "lock""#,
        ),
        (
            json!({"client":"c1","f":"acquire","lock":"a"}),
            r#"acquire needs the field "ttl_ms""#,
        ),
        (
            json!({"client":"c1","f":"renew","lock":"a","ttl_ms":1}),
            r#"renew needs the field "token""#,
        ),
        (
            json!({"client":"c1","f":"write","key":"k","token":1}),
            r#"write needs the field "value""#,
        ),
        (
            json!({"client":"c1","f":"read"}),
            r#"read needs the field "key""#,
        ),
        (
            json!({"client":"c1","f":"read","key":".."}),
            r#"no request could be made: the name ".." cannot stand in a path"#,
        ),
    ];
    for (mut request, error) in table {
        request["id"] = json!(7);
        request["process"] = json!(1);
        worker.send(&request);
        assert_eq!(
            worker.response(),
            json!({"id":7,"type":"fail","error":error})
        );
    }
}

#[test]
fn a_malformed_line_ends_the_worker_and_is_named() {
    let first = "c1 c2";
    let later = r#"{"id":1,"process":1,"client":"c1"}"#;
    let table = [
        (
            format!("{first}\n"),
            "line 1 from the harness is no hello: expected value at line 1 column 1: c1 c2",
        ),
        (
            "\n".to_owned(),
            "line 1 from the harness is no hello: EOF while parsing a value at line 1 column 0: ",
        ),
        (
            idle_hello().to_string().replace("\"hello\"", "\"goodbye\"") + "\n",
            "line 1 from the harness is no hello: \"f\" is another word: {",
        ),
        (
            format!("{}\n{later}\n", idle_hello()),
            "line 2 from the harness is no request: missing field `f` at line 1 column 34: {\"id\":1,",
        ),
        (
            format!("{}\n{}", idle_hello(), "x".repeat(LINE_LIMIT)),
            "line 2 from the harness is no request: it is longer than 1048576 bytes: xxxx",
        ),
    ];
    for (input, expected) in table {
        let mut worker = Piped::start();
        let mut requests = worker.requests.try_clone().expect("a pipe");
        // From a thread of its own: a worker that gave up reads no more.
        let writing = thread::spawn(move || requests.write_all(input.as_bytes()));
        let mut rest = String::new();
        worker.responses.read_to_string(&mut rest).expect("text");
        let error = worker
            .thread
            .join()
            .expect("no panic")
            .expect_err("malformed");
        assert!(matches!(error, WorkerError::Line { .. }), "{error:?}");
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(rest, "");
        drop(worker.requests);
        let _ = writing.join().expect("no panic");
    }
}

#[test]
fn an_input_that_ends_between_or_within_lines_is_an_end_and_no_error() {
    for input in [
        String::new(),
        "{\"f\":\"hel".to_owned(),
        format!("{}\n", idle_hello()),
        format!("{}\n{{\"id\":1", idle_hello()),
    ] {
        let mut worker = Piped::start();
        worker
            .requests
            .write_all(input.as_bytes())
            .expect("the worker listens");
        let (ended, rest) = worker.end();
        assert!(
            ended.is_ok() && rest.is_empty(),
            "{input:?}: {ended:?} {rest:?}"
        );
    }
}

#[test]
fn a_hello_that_asks_for_what_there_is_not_says_what_is_right() {
    let mut no_link = idle_hello();
    no_link["links"] = json!({"lock": "127.0.0.1:1"});
    let mut no_lock = idle_hello();
    no_lock["options"]["lock"] = json!("sandcastle");
    let mut no_time = idle_hello();
    no_time["options"]["timeout_ms"] = json!(0);
    let mut no_name = idle_hello();
    no_name["clients"] = json!(["c\n1"]);
    let table = [
        (
            no_link,
            r#"the hello has no link "resource": "links":{"lock":"host:port","resource":"host:port"} is right"#,
        ),
        (
            no_lock,
            r#""sandcastle" is no known lock service: reference, etcd, postgres, postgres-advisory is right"#,
        ),
        (no_time, "the hello's timeout_ms is 0: at least 1 is right"),
        (
            no_name,
            r#"client "c\n1" cannot speak to "127.0.0.1:1": the name goes into a header: printable ASCII is right"#,
        ),
    ];
    for (hello, expected) in table {
        let (ended, rest) = Piped::greeted(&hello).end();
        assert_eq!(ended.expect_err("asks for too much").to_string(), expected);
        assert_eq!(rest, "");
    }
}

/// An input that tells when all of it was taken, and ends once it is told to.
struct Input {
    bytes: std::io::Cursor<Vec<u8>>,
    taken: mpsc::Sender<()>,
    end: mpsc::Receiver<()>,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.bytes.read(buffer)?;
        if length == 0 {
            let _ = self.taken.send(());
            let _ = self.end.recv();
        }
        Ok(length)
    }
}

/// An output that keeps its first write waiting until all of the input was taken. Tells of each flush how many lines
/// were written before it.
struct Output {
    all_taken: Option<mpsc::Receiver<()>>,
    lines: usize,
    unflushed_writes: usize,
    flushes: mpsc::Sender<usize>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(all_taken) = self.all_taken.take() {
            let _ = all_taken.recv();
        }
        self.lines += bytes.iter().filter(|&&byte| byte == b'\n').count();
        self.unflushed_writes += 1;
        assert_eq!(self.unflushed_writes, 1, "a batch is one write");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.unflushed_writes = 0;
        let _ = self.flushes.send(self.lines);
        Ok(())
    }
}

#[test]
fn responses_that_are_ready_together_leave_in_one_write_with_one_flush() {
    let requests = (0..500).map(|id| json!({"id":id,"process":1,"client":"c9","f":"read"}));
    let input: String = [idle_hello()]
        .into_iter()
        .chain(requests)
        .map(|line| format!("{line}\n"))
        .collect();
    let ((taken, all_taken), (end, ended)) = (mpsc::channel(), mpsc::channel());
    let (flushes, flushed) = mpsc::channel();
    let stdin = Input {
        bytes: std::io::Cursor::new(input.into_bytes()),
        taken,
        end: ended,
    };
    let stdout = Output {
        all_taken: Some(all_taken),
        lines: 0,
        unflushed_writes: 0,
        flushes,
    };
    let worker = thread::spawn(move || worker::run(stdin, stdout));

    let mut batches = 0;
    while flushed
        .recv_timeout(PATIENT)
        .expect("the worker flushes what it wrote before it waits")
        < 500
    {
        batches += 1;
    }
    drop(end);
    assert!(worker.join().expect("no panic").is_ok());
    assert!(
        batches < 50,
        "{batches} batches for 500 responses that were ready together"
    );
}
