//! One sentence a case, written against sockets and the HTTP API only, so that any Toxiproxy can be tried.

use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::bench::{Bench, ends, hears, is_refused, is_reset, is_silent, say, soon};

const HOUR_MS: u64 = 3_600_000;
const RECEIVED: &str = "toxiproxy_proxy_received_bytes_total";
const SENT: &str = "toxiproxy_proxy_sent_bytes_total";

pub async fn disabling_ends_connections_on_both_sides_and_refuses_new_ones(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench.set_enabled(false).await;
    is_refused(bench.listen).await;
    ends(&mut client).await;
    ends(&mut server).await;
}

pub async fn enabling_again_listens_on_the_same_port(bench: &Bench) {
    let (_client, _server) = bench.pair().await;
    for _ in 0..3 {
        bench.set_enabled(false).await;
        is_refused(bench.listen).await;
        bench.set_enabled(true).await;
        let (mut client, mut server) = bench.pair().await;
        say(&mut server, "back").await;
        hears(&mut client, "back").await;
    }
}

pub async fn a_hole_both_ways_takes_writes_in_silence_and_accepts_new_connections(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench.dig("upstream").await;
    bench.dig("downstream").await;
    say(&mut client, "request").await;
    say(&mut server, "reply").await;
    is_silent(&mut server).await;
    is_silent(&mut client).await;
    let mut newcomer = bench.connect().await;
    say(&mut newcomer, "hello").await;
    is_silent(&mut newcomer).await;
}

pub async fn removing_a_hole_ends_the_connections_under_it_and_loses_their_bytes(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench.dig("upstream").await;
    bench.dig("downstream").await;
    say(&mut client, "lost").await;
    say(&mut server, "lost too").await;
    is_silent(&mut server).await;
    bench.remove("timeout_upstream").await;
    bench.remove("timeout_downstream").await;
    ends(&mut client).await;
    ends(&mut server).await;
    let (mut client, mut server) = bench.pair().await;
    say(&mut server, "healed").await;
    hears(&mut client, "healed").await;
}

pub async fn a_hole_downstream_loses_the_reply_and_not_the_request(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench.dig("downstream").await;
    say(&mut client, "request").await;
    hears(&mut server, "request").await;
    say(&mut server, "reply").await;
    is_silent(&mut client).await;
    say(&mut client, "again").await;
    hears(&mut server, "again").await;
    bench.remove("timeout_downstream").await;
    ends(&mut client).await;
    ends(&mut server).await;
}

pub async fn a_hole_upstream_loses_the_request_and_not_what_the_server_says(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench.dig("upstream").await;
    say(&mut client, "request").await;
    is_silent(&mut server).await;
    say(&mut server, "news").await;
    hears(&mut client, "news").await;
}

pub async fn a_stall_that_is_removed_delivers_what_it_held_and_the_connection_lives(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench
        .add("latency", "upstream", json!({"latency": HOUR_MS}))
        .await;
    say(&mut client, "held").await;
    is_silent(&mut server).await;
    bench.remove("latency_upstream").await;
    hears(&mut server, "held").await;
    say(&mut client, "and on").await;
    hears(&mut server, "and on").await;
    say(&mut server, "reply").await;
    hears(&mut client, "reply").await;
}

pub async fn a_second_toxic_on_a_live_connection_takes_effect_at_once(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench
        .add("latency", "upstream", json!({"latency": 1}))
        .await;
    say(&mut client, "first").await;
    hears(&mut server, "first").await;
    bench.dig("upstream").await;
    say(&mut client, "second").await;
    is_silent(&mut server).await;
}

pub async fn pipelined_messages_are_each_delayed_and_not_by_the_sum(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench
        .add("latency", "upstream", json!({"latency": 300}))
        .await;
    let start = Instant::now();
    for _ in 0..10 {
        say(&mut client, "message").await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for _ in 0..10 {
        hears(&mut server, "message").await;
    }
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(300), "delayed: {took:?}");
    assert!(
        took < Duration::from_millis(10 * 300),
        "not by the sum: {took:?}"
    );
}

pub async fn bandwidth_of_zero_is_a_stall_that_loses_nothing(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench
        .add("bandwidth", "downstream", json!({"rate": 0}))
        .await;
    say(&mut server, "held").await;
    is_silent(&mut client).await;
    say(&mut client, "other way").await;
    hears(&mut server, "other way").await;
    bench.remove("bandwidth_downstream").await;
    hears(&mut client, "held").await;
}

pub async fn reset_peer_resets_on_new_data_and_leaves_idle_connections_alone(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    let (mut idle, _idle_server) = bench.pair().await;
    bench
        .add("reset_peer", "downstream", json!({"timeout": 0}))
        .await;
    is_silent(&mut client).await;
    say(&mut server, "x").await;
    is_reset(&mut client).await;
    is_silent(&mut idle).await;
}

pub async fn an_effect_is_in_force_when_its_call_returns(bench: &Bench) {
    for _ in 0..10 {
        let (mut client, mut server) = bench.pair().await;
        bench.dig("upstream").await;
        say(&mut client, "lost").await;
        say(&mut server, "still there").await;
        hears(&mut client, "still there").await;
        bench.remove("timeout_upstream").await;
        ends(&mut server).await;
        ends(&mut client).await;
    }
}

pub async fn a_dead_server_closes_the_connection(bench: &Bench) {
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let upstream = gone.local_addr().expect("an address");
    drop(gone);
    let name = format!("{}-dead", bench.name);
    let listen = bench.create(&name, upstream).await;
    let mut client = TcpStream::connect(listen).await.expect("the proxy accepts");
    ends(&mut client).await;
    let (status, _) = bench
        .call(Method::DELETE, &format!("proxies/{name}"), None)
        .await;
    assert_eq!(status, StatusCode::NO_CONTENT);
}

pub async fn a_timeout_ends_the_connection_when_it_is_over(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    let start = Instant::now();
    bench
        .add("timeout", "upstream", json!({"timeout": 200}))
        .await;
    say(&mut client, "lost").await;
    ends(&mut server).await;
    ends(&mut client).await;
    assert!(start.elapsed() >= Duration::from_millis(200));
}

pub async fn limit_data_delivers_its_bytes_and_ends_the_connection(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench
        .add("limit_data", "downstream", json!({"bytes": 4}))
        .await;
    say(&mut server, "123").await;
    hears(&mut client, "123").await;
    say(&mut server, "456").await;
    hears(&mut client, "4").await;
    ends(&mut client).await;
}

pub async fn slow_close_delivers_bytes_at_once_and_the_end_later(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench
        .add("slow_close", "downstream", json!({"delay": 300}))
        .await;
    let start = Instant::now();
    say(&mut server, "last words").await;
    drop(server);
    hears(&mut client, "last words").await;
    ends(&mut client).await;
    assert!(start.elapsed() >= Duration::from_millis(300));
}

pub async fn slicer_delivers_every_byte_in_order(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    let slices = json!({"average_size": 8, "size_variation": 3, "delay": 10});
    bench.add("slicer", "upstream", slices).await;
    let text: String = (0..200).map(|number| format!("{number},")).collect();
    say(&mut client, &text).await;
    hears(&mut server, &text).await;
}

pub async fn toxicity_of_zero_leaves_connections_alone(bench: &Bench) {
    let toxic = json!({"type": "timeout", "stream": "upstream", "toxicity": 0.0});
    let path = format!("proxies/{}/toxics", bench.name);
    let (status, answer) = bench.call(Method::POST, &path, Some(toxic)).await;
    assert_eq!(
        (status, &answer["toxicity"].as_f64()),
        (StatusCode::OK, &Some(0.0))
    );
    for _ in 0..10 {
        let (mut client, mut server) = bench.pair().await;
        say(&mut client, "through").await;
        hears(&mut server, "through").await;
    }
}

pub async fn a_changed_toxic_works_with_its_new_numbers(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench.add("bandwidth", "upstream", json!({"rate": 0})).await;
    is_silent(&mut server).await;
    let path = format!("proxies/{}/toxics/bandwidth_upstream", bench.name);
    let change = json!({"attributes": {"rate": 100_000}});
    let (status, answer) = bench.call(Method::POST, &path, Some(change)).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["attributes"]["rate"], json!(100_000));
    say(&mut client, "flows").await;
    hears(&mut server, "flows").await;
    assert_eq!(
        bench.call(Method::GET, &path, None).await,
        (StatusCode::OK, answer)
    );
}

pub async fn deleting_a_proxy_ends_its_connections_and_frees_its_port(bench: &Bench) {
    let name = format!("{}-short", bench.name);
    let listen = bench.create(&name, bench.upstream()).await;
    let mut client = TcpStream::connect(listen).await.expect("the proxy accepts");
    let mut server = bench.accept().await;
    say(&mut client, "?").await;
    hears(&mut server, "?").await;
    let (status, _) = bench
        .call(Method::DELETE, &format!("proxies/{name}"), None)
        .await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    ends(&mut client).await;
    ends(&mut server).await;
    is_refused(listen).await;
    TcpListener::bind(listen).await.expect("the port is free");
}

pub async fn the_api_answers_with_the_codes_of_toxiproxy(bench: &Bench) {
    let proxy = format!("proxies/{}", bench.name);
    let toxics = format!("{proxy}/toxics");
    let twin = json!({"name": bench.name, "listen": "127.0.0.1:0", "upstream": "127.0.0.1:9"});
    let noisy = json!({"type": "noisy"});
    let sideways = json!({"type": "latency", "stream": "sideways"});
    let latency = json!({"type": "latency", "attributes": {"latency": 1}});
    let text = json!({"type": "timeout", "attributes": {"timeout": "long"}});
    let cases = [
        (
            Method::POST,
            "proxies",
            Some(twin),
            409,
            "proxy already exists",
        ),
        (
            Method::POST,
            "proxies",
            Some(json!({"name": ""})),
            400,
            "missing required field: name",
        ),
        (
            Method::POST,
            "proxies",
            Some(json!({"name": "n"})),
            400,
            "missing required field: upstream",
        ),
        (
            Method::POST,
            "proxies",
            Some(json!("text")),
            400,
            "bad request body",
        ),
        (Method::GET, "proxies/nobody", None, 404, "proxy not found"),
        (
            Method::POST,
            "proxies/nobody",
            Some(json!({})),
            404,
            "proxy not found",
        ),
        (
            Method::DELETE,
            "proxies/nobody",
            None,
            404,
            "proxy not found",
        ),
        (
            Method::GET,
            "proxies/nobody/toxics",
            None,
            404,
            "proxy not found",
        ),
        (
            Method::POST,
            &toxics,
            Some(noisy),
            400,
            "invalid toxic type",
        ),
        (
            Method::POST,
            &toxics,
            Some(sideways),
            400,
            "stream was invalid, can be either upstream or downstream",
        ),
        (Method::POST, &toxics, Some(text), 400, "bad request body"),
        (Method::POST, &toxics, Some(latency.clone()), 200, ""),
        (
            Method::POST,
            &toxics,
            Some(latency),
            409,
            "toxic already exists",
        ),
        (
            Method::GET,
            &format!("{toxics}/nothing"),
            None,
            404,
            "toxic not found",
        ),
        (
            Method::POST,
            &format!("{toxics}/nothing"),
            Some(json!({})),
            404,
            "toxic not found",
        ),
        (
            Method::DELETE,
            &format!("{toxics}/nothing"),
            None,
            404,
            "toxic not found",
        ),
        (
            Method::DELETE,
            &format!("{toxics}/latency_downstream"),
            None,
            204,
            "",
        ),
        (Method::GET, &toxics, None, 200, ""),
        (Method::GET, "proxies", None, 200, ""),
    ];
    for (method, path, body, status, error) in cases {
        let asked = format!("{method} {path} {body:?}");
        let (code, answer) = bench.call(method, path, body).await;
        assert_eq!(code.as_u16(), status, "{asked}: {answer}");
        if !error.is_empty() {
            let told = answer["error"].as_str().unwrap_or_default();
            assert!(told.starts_with(error), "{asked}: {answer}");
            assert_eq!(answer["status"], json!(status), "{asked}");
        }
    }
    let (_, version) = bench.call(Method::GET, "version", None).await;
    assert!(version["version"].is_string(), "{version}");
}

pub async fn a_toxic_gets_its_default_name_stream_and_toxicity(bench: &Bench) {
    let path = format!("proxies/{}", bench.name);
    let toxic = json!({"type": "latency", "attributes": {"latency": 7}});
    let (_, answer) = bench
        .call(Method::POST, &format!("{path}/toxics"), Some(toxic))
        .await;
    assert_eq!(answer["name"], json!("latency_downstream"));
    assert_eq!(answer["stream"], json!("downstream"));
    assert_eq!(answer["toxicity"].as_f64(), Some(1.0));
    assert_eq!(answer["attributes"], json!({"latency": 7, "jitter": 0}));
    let (_, view) = bench.call(Method::GET, &path, None).await;
    assert_eq!(view["toxics"], json!([answer]));
    assert_eq!(view["listen"], json!(bench.listen.to_string()));
    assert_eq!(view["upstream"], json!(bench.upstream().to_string()));
    assert_eq!(view["enabled"], json!(true));
}

pub async fn populate_keeps_an_equal_proxy_and_replaces_another(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench
        .add("latency", "downstream", json!({"latency": 1}))
        .await;
    let same = json!([{
        "name": bench.name, "listen": bench.listen.to_string(), "upstream": bench.upstream().to_string()
    }]);
    let (status, answer) = bench.call(Method::POST, "populate", Some(same)).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(
        answer["proxies"][0]["toxics"][0]["name"],
        json!("latency_downstream")
    );
    assert_eq!(answer["error"], Value::Null);
    say(&mut server, "alive").await;
    hears(&mut client, "alive").await;

    let other = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let elsewhere = other.local_addr().expect("an address").to_string();
    let moved =
        json!([{"name": bench.name, "listen": bench.listen.to_string(), "upstream": elsewhere}]);
    let (status, answer) = bench.call(Method::POST, "populate", Some(moved)).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(answer["proxies"][0]["toxics"], json!([]));
    ends(&mut client).await;

    let nameless = json!([{"upstream": "127.0.0.1:9"}]);
    let (status, answer) = bench.call(Method::POST, "populate", Some(nameless)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(
        answer["error"],
        json!("missing required field: name at proxy 1")
    );
}

pub async fn browsers_are_refused(bench: &Bench) {
    assert_eq!(bench.call_as("Mozilla/5.0").await, StatusCode::FORBIDDEN);
    assert_eq!(bench.call_as("curl/8").await, StatusCode::OK);
}

pub async fn a_client_that_closes_its_half_still_gets_its_reply(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    say(&mut client, "request").await;
    client.shutdown().await.expect("a half closes");
    hears(&mut server, "request").await;
    ends(&mut server).await;
    say(&mut server, "reply").await;
    drop(server);
    hears(&mut client, "reply").await;
    ends(&mut client).await;
}

pub async fn a_fin_is_held_back_under_a_hole_and_a_stall(bench: &Bench) {
    for (kind, attributes) in [
        ("timeout", json!({"timeout": 0})),
        ("latency", json!({"latency": HOUR_MS})),
        ("bandwidth", json!({"rate": 0})),
    ] {
        let (client, mut server) = bench.pair().await;
        bench.add(kind, "upstream", attributes).await;
        drop(client);
        is_silent(&mut server).await;
        bench.remove(&format!("{kind}_upstream")).await;
        ends(&mut server).await;
    }
}

pub async fn full_queues_push_back_and_lose_nothing_when_healed(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench.add("bandwidth", "upstream", json!({"rate": 0})).await;
    // A sender without a reader fills the proxy's queue and both sockets' buffers; then it must wait.
    let block = vec![b'x'; 64 * 1024];
    let mut sent = 0;
    while let Ok(written) =
        tokio::time::timeout(Duration::from_millis(300), client.write(&block)).await
    {
        sent += written.expect("the connection lives");
        assert!(sent < 64 << 20, "the sender feels back-pressure");
    }
    bench
        .add("latency", "upstream", json!({"latency": 1}))
        .await;
    is_silent(&mut server).await;
    bench.remove("bandwidth_upstream").await;
    let mut heard = vec![0; sent];
    soon("all bytes arrive", server.read_exact(&mut heard))
        .await
        .expect("all bytes arrive");
    say(&mut client, "and on").await;
    hears(&mut server, "and on").await;
}

pub async fn no_connection_escapes_a_hole_that_is_dug_while_it_opens(bench: &Bench) {
    let mut spoken = 0;
    for _ in 0..10 {
        let opening = async {
            let mut clients = Vec::new();
            for _ in 0..10 {
                clients.push(bench.connect().await);
            }
            clients
        };
        let (mut clients, ()) = tokio::join!(opening, bench.dig("upstream"));
        for client in &mut clients {
            say(client, "lost").await;
            spoken += 4;
        }
        soon("the proxy has read it all", async {
            while counter(bench, RECEIVED, "upstream").await != spoken {
                tokio::task::yield_now().await;
            }
        })
        .await;
        bench.remove("timeout_upstream").await;
    }
    assert_eq!(counter(bench, SENT, "upstream").await, 0);
}

pub async fn reset_enables_proxies_and_heals_toxics(bench: &Bench) {
    bench
        .add("latency", "upstream", json!({"latency": HOUR_MS}))
        .await;
    bench.set_enabled(false).await;
    let (status, _) = bench.call(Method::POST, "reset", None).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (_, view) = bench
        .call(Method::GET, &format!("proxies/{}", bench.name), None)
        .await;
    assert_eq!(
        (&view["enabled"], &view["toxics"]),
        (&json!(true), &json!([]))
    );
    let (mut client, mut server) = bench.pair().await;
    say(&mut client, "flows").await;
    hears(&mut server, "flows").await;
}

/// The value of one counter of the bench's proxy.
async fn counter(bench: &Bench, name: &str, direction: &str) -> u64 {
    let (status, text) = bench.call(Method::GET, "metrics", None).await;
    assert_eq!(status, StatusCode::OK);
    let labels = format!(
        "{name}{{direction=\"{direction}\",listener=\"{}\",proxy=\"{}\",upstream=\"{}\"}} ",
        bench.listen,
        bench.name,
        bench.upstream()
    );
    let text = text.as_str().expect("metrics are text");
    let line = text.lines().find_map(|line| line.strip_prefix(&labels));
    line.expect("the proxy has its counters")
        .parse()
        .expect("a counter is a number")
}

pub async fn metrics_count_bytes_as_they_flow(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    say(&mut server, "four").await;
    hears(&mut client, "four").await;
    assert_eq!(counter(bench, RECEIVED, "upstream").await, 1);
    assert_eq!(counter(bench, SENT, "upstream").await, 1);
    assert_eq!(counter(bench, RECEIVED, "downstream").await, 4);
    assert_eq!(counter(bench, SENT, "downstream").await, 4);
    bench.dig("upstream").await;
    say(&mut client, "lost").await;
    soon("the proxy has read them", async {
        while counter(bench, RECEIVED, "upstream").await != 5 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(counter(bench, SENT, "upstream").await, 1);
}

pub async fn held_bytes_are_written_before_the_healing_call_returns(bench: &Bench) {
    let (mut client, mut server) = bench.pair().await;
    bench
        .add("latency", "upstream", json!({"latency": HOUR_MS}))
        .await;
    say(&mut client, "held").await;
    is_silent(&mut server).await;
    bench.remove("latency_upstream").await;
    // The call has returned and nothing else has run: the bytes are in the server's kernel already.
    let mut heard = [0; 16];
    soon("readiness", server.readable())
        .await
        .expect("the server's socket lives");
    assert_eq!(server.try_read(&mut heard).expect("bytes are there"), 4);
}

pub async fn idle_clients_are_closed_when_the_server_shuts_down(_: &Bench) {
    let mut bench = Bench::embedded().await;
    let (mut client, mut server) = bench.pair().await;
    bench.stop().await;
    ends(&mut client).await;
    ends(&mut server).await;
    is_refused(bench.listen).await;
}
