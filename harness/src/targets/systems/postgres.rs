//! One PostgreSQL server, from an installed `postgresql`.
//!
//! Two things about it need care. It refuses to be root: a harness that is root starts it as the user `postgres`. And
//! its backends lead sessions of their own and write their titles over their environment, so that neither the process
//! group nor the marker finds them: they are known by their program and by the folder that they work in, which is the
//! data folder of the run.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::program::{find_program, is_executable, version_of};
use super::{Doing, Place, Site, System};
use crate::error::HarnessError;
use crate::faults::Greeting;
use crate::journal::{Entry, Journal, Process};
use crate::targets::local::Service;
use crate::targets::proc::Home;
use crate::targets::{NodeCommand, Owner, Ports, ProcessNode, Spawner};

/// The node's name.
const NAME: &str = "postgres";
/// How long `initdb` may take.
const INITDB_WITHIN: Duration = Duration::from_secs(60);
/// How long a connection may take to show that the server takes clients.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Postgres {
    place: [Place; 1],
    command: NodeCommand,
    initdb: NodeCommand,
    data: PathBuf,
    /// A folder outside the run's, where the run's cannot be entered by the user `postgres`.
    outside: Option<PathBuf>,
    /// Whether its data stays after the run.
    keep: bool,
    owner: Option<Owner>,
    program: PathBuf,
}

/// Whether there is a server to start, and somebody to start it as.
pub(super) fn installed() -> Result<String, String> {
    let program = programs()?.join("postgres");
    owner()?;
    Ok(version_of(&program).unwrap_or_else(|| program.display().to_string()))
}

/// The folder with `postgres` and `initdb`: on the PATH, or where Debian and others keep them, the newest first.
fn programs() -> Result<PathBuf, String> {
    let holds_both = |folder: &Path| {
        ["postgres", "initdb"]
            .iter()
            .all(|name| is_executable(&folder.join(name)))
    };
    if let Some(folder) = find_program("postgres", &[])
        .and_then(|program| program.canonicalize().ok())
        .and_then(|program| Some(program.parent()?.to_owned()))
        .filter(|folder| holds_both(folder))
    {
        return Ok(folder);
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|version| version.path());
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|version| {
            let number = version.file_name()?.to_str()?.parse().ok()?;
            Some((number, version.join("bin")))
        })
        .filter(|(_, folder)| holds_both(folder))
        .collect();
    found.sort();
    found
        .pop()
        .map(|(_, folder)| folder)
        .ok_or_else(|| "there is no PostgreSQL server: apt-get install postgresql".to_owned())
}

/// As whom it is started: `None` is the harness's own user.
fn owner() -> Result<Option<Owner>, String> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(None);
    }
    match nix::unistd::User::from_name("postgres") {
        Ok(Some(user)) => Ok(Some(Owner {
            user: user.uid.as_raw(),
            group: user.gid.as_raw(),
        })),
        _ => Err(
            "PostgreSQL refuses to be root, and there is no user postgres: apt-get install postgresql, or run as another user"
                .to_owned(),
        ),
    }
}

pub(super) fn plan(
    site: &Site<'_>,
    ports: &mut Ports,
    _service: Service,
) -> Result<Box<dyn System>, HarnessError> {
    let programs = programs().map_err(HarnessError::Usage)?;
    let owner = owner().map_err(HarnessError::Usage)?;
    let address = ports.claim()?;
    let (data, outside) = if owner.is_none() || anybody_can_enter(site.folder) {
        (site.data(NAME), None)
    } else {
        let outside = std::env::temp_dir().join(format!("fencepost-{}", site.run));
        (outside.join("data").join(NAME), Some(outside))
    };
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let data = absolute(&data);
    let program = programs.join("postgres");
    let node = |program: &Path, arguments: Vec<std::ffi::OsString>| NodeCommand {
        arguments,
        without: Some("PG"),
        environment: vec![("LC_ALL", "C")],
        owner,
        home: Some(Home {
            folder: data.clone(),
            program: programs.join("postgres"),
        }),
        ..NodeCommand::new(program, site.marker(NAME), site.log(NAME))
    };
    // Each client has a connection or two for each service, and more while old ones are dying.
    let connections = 100 + 8 * site.clients;
    let mut arguments: Vec<std::ffi::OsString> = vec!["-D".into(), data.clone().into()];
    for setting in [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={}", address.port()),
        "unix_socket_directories=".to_owned(),
        format!("max_connections={connections}"),
        "log_checkpoints=off".to_owned(),
        // What is written before an answer outlives SIGKILL in the page cache; only a machine that dies could lose it,
        // and none does here. With it a recovery first syncs the whole folder, which takes a slow disk a minute.
        "fsync=off".to_owned(),
    ] {
        arguments.extend(["-c".into(), setting.into()]);
    }
    let initdb = [
        "--auth=trust",
        "--username=postgres",
        "--encoding=UTF8",
        "--no-locale",
        "--no-sync",
        "--pgdata",
    ];
    let initdb = initdb
        .into_iter()
        .map(Into::into)
        .chain([data.clone().into()])
        .collect();
    Ok(Box::new(Postgres {
        place: [Place {
            name: NAME.to_owned(),
            address,
        }],
        command: node(&program, arguments),
        initdb: node(&programs.join("initdb"), initdb),
        outside,
        keep: site.keep,
        owner,
        program,
        data,
    }))
}

/// Whether every folder on the way lets everybody through.
fn anybody_can_enter(folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else {
        return false;
    };
    folder.ancestors().all(|ancestor| {
        std::fs::metadata(ancestor).is_ok_and(|it| it.permissions().mode() & 0o001 != 0)
    })
}

impl System for Postgres {
    fn name(&self) -> &str {
        NAME
    }

    fn places(&self) -> &[Place] {
        &self.place
    }

    fn prepare<'a>(
        &'a self,
        spawner: &'a Spawner,
        journal: &'a Journal,
    ) -> Doing<'a, Result<(), HarnessError>> {
        Box::pin(async move {
            let output = |source| HarnessError::Output {
                path: self.data.clone(),
                source,
            };
            // Data that is to be kept is nothing to heal.
            if let Some(outside) = self.outside.as_ref().filter(|_| !self.keep) {
                journal.write(&Entry::Data {
                    path: outside.join("data"),
                })?;
            }
            std::fs::create_dir_all(&self.data).map_err(output)?;
            if let Some(owner) = self.owner {
                std::os::unix::fs::chown(&self.data, Some(owner.user), Some(owner.group))
                    .map_err(output)?;
            }
            std::fs::set_permissions(&self.data, std::fs::Permissions::from_mode(0o700))
                .map_err(output)?;
            let failed = |why: String| HarnessError::node(NAME, format!("initdb {why}"));
            let child = spawner
                .spawn(self.initdb.clone())
                .map_err(|error| failed(format!("cannot be started: {error}")))?;
            let mut node = ProcessNode::of(&self.initdb, child);
            if let Some(process) = Process::now(node.pid()) {
                journal.write(&Entry::Node {
                    node: NAME.to_owned(),
                    process,
                    home: self.initdb.home.clone(),
                })?;
            }
            let begun = tokio::time::Instant::now();
            loop {
                match node.ended() {
                    Some(status) if status.success() => return Ok(()),
                    Some(status) => {
                        return Err(failed(format!("ended with {status}; see its log")));
                    }
                    None if begun.elapsed() > INITDB_WITHIN => {
                        return Err(failed(format!("takes longer than {INITDB_WITHIN:?}")));
                    }
                    None => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        })
    }

    fn command(&self, _place: usize) -> Option<NodeCommand> {
        Some(self.command.clone())
    }

    fn ready<'a>(&'a self, _place: usize, _http: &'a reqwest::Client) -> Doing<'a, bool> {
        serves(self.place[0].address)
    }

    fn greeting(&self) -> Greeting {
        Greeting::Postgres
    }

    fn version(&self) -> Option<(String, String)> {
        Some((NAME.to_owned(), version_of(&self.program)?))
    }

    fn clear(&self, keep_data: bool) -> Vec<String> {
        let mut left = Vec::new();
        left.extend(remove_shared_memory(&self.data));
        if let Some(outside) = self.outside.as_ref().filter(|_| !keep_data)
            && outside.exists()
            && let Err(error) = std::fs::remove_dir_all(outside)
        {
            left.push(format!("{}: {error}", outside.display()));
        }
        left
    }
}

/// Whether the server at `address` takes clients now.
pub(super) fn serves<'a>(address: SocketAddr) -> Doing<'a, bool> {
    Box::pin(async move {
        tokio::time::timeout(ANSWERS_WITHIN, takes_clients(address))
            .await
            .is_ok_and(|answered| answered.unwrap_or(false))
    })
}

/// Begins a session as the superuser of the run, and sees whether the server lets it in: while it recovers it does not.
async fn takes_clients(address: SocketAddr) -> io::Result<bool> {
    const START: &[u8] = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    const GOODBYE: &[u8] = &[b'X', 0, 0, 0, 4];
    let mut stream = TcpStream::connect(address).await?;
    let length = u32::try_from(START.len() + 4).expect("a short message");
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(START).await?;
    let mut kind = [0_u8; 1];
    stream.read_exact(&mut kind).await?;
    // R: it asks for a password, or says that none is needed. E: an error.
    stream.write_all(GOODBYE).await?;
    Ok(kind == *b"R")
}

/// Removes the small segment of System V shared memory that a killed server leaves, by which it would know that somebody
/// still uses its data. Nobody does: every process of the node is dead. Returns what is left.
#[must_use]
pub fn remove_shared_memory(data: &Path) -> Option<String> {
    let text = std::fs::read_to_string(data.join("postmaster.pid")).ok()?;
    // Its seventh line: key and number of the segment.
    let mut words = text.lines().nth(6)?.split_whitespace();
    // A key is a signed number, and written as if it had no sign.
    let key = words.next()?.parse::<u64>().ok()? as nix::libc::key_t;
    let number: nix::libc::c_int = words.next()?.parse().ok()?;
    // SAFETY: shmctl fills the structure or fails; it is plain data that zeroes are a value of.
    let (found, segment) = unsafe {
        let mut segment: nix::libc::shmid_ds = std::mem::zeroed();
        let found = nix::libc::shmctl(number, nix::libc::IPC_STAT, &raw mut segment);
        (found, segment)
    };
    // Another one with that number, or one that somebody is attached to, is none of ours.
    if found != 0 || segment.shm_nattch != 0 || segment.shm_perm.__key != key {
        return None;
    }
    // SAFETY: IPC_RMID takes no structure.
    let removed = unsafe { nix::libc::shmctl(number, nix::libc::IPC_RMID, std::ptr::null_mut()) };
    (removed != 0).then(|| {
        let error = io::Error::last_os_error();
        format!("shared memory segment {number} of PostgreSQL: {error}")
    })
}
