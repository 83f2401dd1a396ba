//! One client's connections to a PostgreSQL server, and what its errors prove.
//!
//! **One statement at a time on a connection.** A client has two operations under way, so it has up to two connections;
//! on one alone a write that waits for a row would hold up a renewal. A connection is kept after an answer and dropped
//! after anything else.
//!
//! **Nothing is sent twice, and nothing is cancelled** (tokio-postgres 0.7): the crate repeats nothing. A statement that
//! was not answered in time is left alone; it may still be carried out, and that is what its outcome says.
//!
//! Each statement is a transaction of its own, so that an `ERROR` means that its transaction was rolled back.
//!
//! | what came back | outcome | why |
//! |---|---|---|
//! | no connection: refused, no login, starting up, or not in half of the time limit | fail | there was nothing to write a statement to |
//! | `ERROR` with 40001 (serialization failure) or 40P01 (deadlock) | fail, never as a refusal | rolled back; whoever wants to may ask again |
//! | `ERROR` of most other classes (a table is missing, a value does not fit, cancelled) | fail | rolled back |
//! | `ERROR` of class 08 (connection), 58 (system), XX (internal), or 40003 (completion unknown) | unknown | what was done before it went wrong is not said |
//! | `FATAL`, `PANIC` (shutdown, crash) | unknown | it may come between the commit and its answer |
//! | no answer in time, the connection broke, an answer that cannot be read | unknown | the answer may have been lost, not the statement |

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::{Client, Config, Error, NoTls};

use super::password::password;
use super::{Endpoint, EndpointError, Errand, Failure, Reason, Steward, StewardError};
use crate::protocol::Settings;

/// Idle connections that are kept, for the two operations that a client has under way.
const IDLE_CONNECTIONS: usize = 2;

/// One client's connections to a server.
pub(crate) struct Server {
    config: Config,
    timeout: Duration,
    idle: Mutex<Vec<Connection>>,
}

/// A connection, and the task that moves its bytes. It ends with the last of its owners, without a farewell: one that
/// had to be sent through a dead link would keep it alive.
#[derive(Clone)]
pub(crate) struct Connection {
    client: Arc<Client>,
    _task: Arc<Task>,
}

struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    /// Whether it is known to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.client.is_closed()
    }

    /// Carries out statements on it, within `within`.
    pub(crate) async fn run<T, F>(
        &self,
        within: Duration,
        statements: impl FnOnce(Arc<Client>) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        match timeout(within, statements(Arc::clone(&self.client))).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(failure(&error)),
            Err(_) => Err(Failure::Unknown("no answer in time".to_owned())),
        }
    }
}

impl Server {
    /// Prepares connections; none is opened yet.
    pub(crate) fn new(endpoint: &Endpoint<'_>, settings: &Settings) -> Result<Self, EndpointError> {
        let address = endpoint.single()?;
        let (host, port) = address
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)))
            .ok_or_else(|| endpoint.unusable("host:port is right"))?;
        let mut config = Config::new();
        config
            .host(host.trim_start_matches('[').trim_end_matches(']'))
            .port(port)
            .user(settings.user.as_deref().unwrap_or("postgres"))
            .dbname(settings.database.as_deref().unwrap_or("postgres"))
            .application_name(endpoint.client)
            .ssl_mode(SslMode::Disable)
            .keepalives(false);
        if let Some(secret) = password(settings).map_err(|message| endpoint.unusable(message))? {
            config.password(secret);
        }
        Ok(Self {
            config,
            timeout: endpoint.timeout,
            idle: Mutex::default(),
        })
    }

    /// How long an answer may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Carries out statements, within the time limit.
    pub(crate) async fn call<T, F>(
        &self,
        statements: impl FnOnce(Arc<Client>) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let ends = Instant::now() + self.timeout;
        let connection = self.connection().await?;
        let client = Arc::clone(&connection.client);
        let answer = match timeout_at(ends, statements(client)).await {
            Ok(answer) => answer.map_err(|error| failure(&error)),
            Err(_) => Err(Failure::Unknown("no answer in time".to_owned())),
        };
        if !matches!(answer, Err(Failure::Unknown(_))) {
            self.keep(connection);
        }
        answer
    }

    /// A connection that nobody else uses: an idle one, or a new one.
    pub(crate) async fn connection(&self) -> Result<Connection, Failure> {
        loop {
            let idle = self.idle().pop();
            match idle {
                Some(connection) if connection.has_ended() => {}
                Some(connection) => return Ok(connection),
                None => return self.connect().await,
            }
        }
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let failed = |why: String| {
            Failure::Fail(Reason::Other(format!("no connection could be made: {why}")))
        };
        let connected = timeout(self.timeout / 2, self.config.connect(NoTls)).await;
        let (client, connection) = connected
            .map_err(|_| failed("it took too long".to_owned()))?
            .map_err(|error| failed(words(&error)))?;
        let task = tokio::spawn(async {
            // Whoever has a statement under way is told of an error; nobody else needs to know.
            let _ = connection.await;
        });
        Ok(Connection {
            client: Arc::new(client),
            _task: Arc::new(Task(task.abort_handle())),
        })
    }

    /// Takes a connection back on which nothing is under way.
    pub(crate) fn keep(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_CONNECTIONS && !connection.has_ended() {
            idle.push(connection);
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an error proves; see the table above.
fn failure(error: &Error) -> Failure {
    let Some(told) = error.as_db_error() else {
        return Failure::Unknown(words(error));
    };
    if rolled_back(told) {
        Failure::Fail(Reason::Other(words(error)))
    } else {
        Failure::Unknown(words(error))
    }
}

fn rolled_back(told: &DbError) -> bool {
    let code = told.code().code();
    told.parsed_severity() == Some(Severity::Error)
        && !["08", "58", "XX"]
            .iter()
            .any(|class| code.starts_with(class))
        && *told.code() != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
}

/// `ERROR 40001: could not serialize access`, or what the crate says.
fn words(error: &Error) -> String {
    match error.as_db_error() {
        Some(told) => {
            let (severity, code) = (told.severity(), told.code().code());
            format!("{severity} {code}: {}", told.message())
        }
        None => {
            let mut cause: &dyn std::error::Error = error;
            while let Some(source) = cause.source() {
                cause = source;
            }
            cause.to_string()
        }
    }
}

/// The schema of a run, quoted: `"fp_ab12"`.
pub(crate) fn schema(endpoint: &Endpoint<'_>) -> Result<String, EndpointError> {
    Ok(format!("\"{}\"", endpoint.plain_namespace()?))
}

/// The token as PostgreSQL's bigint.
///
/// # Errors
/// A definite failure where it does not fit: nothing was sent.
pub(crate) fn bigint(token: fencepost_checker::history::Token) -> Result<i64, Failure> {
    i64::try_from(token.value())
        .map_err(|_| Failure::Fail(Reason::Other(format!("{token} does not fit a bigint"))))
}

/// Marks a schema as one of ours.
const OURS: &str = "of a Fencepost run";

/// Looks after a run's schema.
struct Schema {
    server: Server,
    schema: String,
    /// Statements that make what an adapter needs, each of them repeatable.
    make: String,
}

/// Makes the one who looks after a run's schema. `make` is what an adapter needs in it, with `{schema}` for its name.
pub(crate) fn steward(
    endpoint: &Endpoint<'_>,
    settings: &Settings,
    make: &str,
) -> Result<Box<dyn Steward>, EndpointError> {
    let schema = schema(endpoint)?;
    Ok(Box::new(Schema {
        server: Server::new(endpoint, settings)?,
        make: make.replace("{schema}", &schema),
        schema,
    }))
}

impl Schema {
    async fn execute(&self, statements: String) -> Result<(), StewardError> {
        let done = self
            .server
            .call(async |client| client.batch_execute(&statements).await);
        done.await.map_err(told)
    }
}

impl Steward for Schema {
    fn ready(&self) -> Errand<'_, ()> {
        Box::pin(self.execute("SELECT 1".to_owned()))
    }

    fn strangers(&self) -> Errand<'_, Vec<String>> {
        Box::pin(async {
            let others = format!(
                "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE c.relkind IN ('r', 'p', 'm', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' \
                 AND obj_description(n.oid, 'pg_namespace') IS DISTINCT FROM '{OURS}' ORDER BY 1 LIMIT 1000"
            );
            let rows = self
                .server
                .call(async |client| client.query_typed(&others, &[]).await);
            let rows = rows.await.map_err(told)?;
            rows.iter()
                .map(|row| row.try_get(0).map_err(|error| StewardError(words(&error))))
                .collect()
        })
    }

    fn prepare(&self) -> Errand<'_, ()> {
        let (schema, make) = (&self.schema, &self.make);
        Box::pin(self.execute(format!(
            "CREATE SCHEMA IF NOT EXISTS {schema}; COMMENT ON SCHEMA {schema} IS '{OURS}'; {make}"
        )))
    }

    fn clear(&self) -> Errand<'_, ()> {
        Box::pin(self.execute(format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema)))
    }
}

fn told(failure: Failure) -> StewardError {
    StewardError(match failure {
        Failure::Fail(reason) => reason.to_string(),
        Failure::Unknown(text) => text,
    })
}
