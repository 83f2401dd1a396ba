//! What a client of Toxiproxy sees, as sentences; each is tried on the embedded server, and on a real one if given.
//!
//! `FENCEPOST_TOXIPROXY=HOST:PORT` names a real Toxiproxy on this machine (it must reach our loopback). Without it
//! the `real` half is skipped with a printed line. Sentences in which the real one is known to differ say why and
//! are tried on the embedded server only.

#[path = "conformance/bench.rs"]
mod bench;
#[path = "conformance/cases.rs"]
mod cases;

/// Makes a test of each case for the embedded server, and for the real one where no reason stands against it.
macro_rules! conformance {
    (
        both { $($shared:ident,)+ }
        embedded_only { $($own:ident = $reason:literal,)+ }
    ) => {
        mod embedded {
            $(#[tokio::test]
            async fn $shared() {
                let bench = crate::bench::Bench::embedded().await;
                crate::cases::$shared(&bench).await;
                bench.close().await;
            })+
            $(#[doc = $reason]
            #[tokio::test]
            async fn $own() {
                let bench = crate::bench::Bench::embedded().await;
                crate::cases::$own(&bench).await;
                bench.close().await;
            })+
        }
        mod real {
            $(#[tokio::test]
            async fn $shared() {
                if let Some(bench) = crate::bench::Bench::real(stringify!($shared)).await {
                    crate::cases::$shared(&bench).await;
                    bench.close().await;
                }
            })+
        }
    };
}

conformance! {
    both {
    disabling_ends_connections_on_both_sides_and_refuses_new_ones,
    enabling_again_listens_on_the_same_port,
    a_hole_both_ways_takes_writes_in_silence_and_accepts_new_connections,
    removing_a_hole_ends_the_connections_under_it_and_loses_their_bytes,
    a_hole_downstream_loses_the_reply_and_not_the_request,
    a_hole_upstream_loses_the_request_and_not_what_the_server_says,
    a_stall_that_is_removed_delivers_what_it_held_and_the_connection_lives,
    a_second_toxic_on_a_live_connection_takes_effect_at_once,
    pipelined_messages_are_each_delayed_and_not_by_the_sum,
    bandwidth_of_zero_is_a_stall_that_loses_nothing,
    reset_peer_resets_on_new_data_and_leaves_idle_connections_alone,
    an_effect_is_in_force_when_its_call_returns,
    a_dead_server_closes_the_connection,
    a_timeout_ends_the_connection_when_it_is_over,
    limit_data_delivers_its_bytes_and_ends_the_connection,
    slow_close_delivers_bytes_at_once_and_the_end_later,
    slicer_delivers_every_byte_in_order,
    toxicity_of_zero_leaves_connections_alone,
    a_changed_toxic_works_with_its_new_numbers,
    deleting_a_proxy_ends_its_connections_and_frees_its_port,
    the_api_answers_with_the_codes_of_toxiproxy,
    a_toxic_gets_its_default_name_stream_and_toxicity,
    populate_keeps_an_equal_proxy_and_replaces_another,
    browsers_are_refused,
    }

    embedded_only {
    a_client_that_closes_its_half_still_gets_its_reply =
        "Real Toxiproxy closes both halves at the first FIN and loses the reply.",
    a_fin_is_held_back_under_a_hole_and_a_stall =
        "Real Toxiproxy lets a FIN through both.",
    full_queues_push_back_and_lose_nothing_when_healed =
        "Real Toxiproxy wedges when a toxic is added to a full pipe.",
    no_connection_escapes_a_hole_that_is_dug_while_it_opens =
        "In real Toxiproxy some do.",
    reset_enables_proxies_and_heals_toxics =
        "It touches every proxy of the server, and a real one may be in use by others.",
    metrics_count_bytes_as_they_flow =
        "Real Toxiproxy counts when a connection ends, and only with -proxy-metrics.",
    held_bytes_are_written_before_the_healing_call_returns =
        "Real Toxiproxy waits up to five seconds a chunk.",
    idle_clients_are_closed_when_the_server_shuts_down =
        "A real one is not ours to stop.",
    }
}
