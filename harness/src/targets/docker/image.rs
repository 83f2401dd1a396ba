//! The image: one for every role, laid out of the running executable and the shared libraries that its loader reports.
//!
//! No base image is pulled and nothing is compiled. What goes in decides the tag, so an image that is there already
//! is the right one, and two builds of one executable give one image.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::engine::Engine;
use crate::error::HarnessError;

/// What the engine is told to do with it.
const DOCKERFILE: &str = include_str!("../../../../docker/Dockerfile");
/// Where the libraries are in the image.
const LIBRARIES: &str = "lib/fencepost";
/// The repository of the image's tags.
const REPOSITORY: &str = "fencepost";
/// Where a preloaded clock is looked for, below the folders of libraries: Debian's package `faketime` has it there.
const FAKETIME: &str = "faketime/libfaketime.so.1";
/// The same in the image.
pub const FAKETIME_IN_IMAGE: &str = "/lib/fencepost/libfaketime.so.1";

/// What an image is built from.
#[derive(Clone)]
pub struct Recipe {
    /// The whole build context, a tar archive.
    context: Vec<u8>,
    /// `fencepost:<12 hexadecimal digits of what goes in>`.
    pub tag: String,
    /// What goes in, as paths of this machine.
    pub files: Vec<PathBuf>,
    /// Whether a clock to preload is in it.
    pub faketime: bool,
}

impl std::fmt::Debug for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes", self.tag, self.context.len())
    }
}

impl Recipe {
    /// The recipe for `executable`.
    ///
    /// # Errors
    /// When it, or a library that it needs, cannot be read.
    pub fn of(executable: &Path) -> Result<Self, HarnessError> {
        let (loader, mut libraries) = loaded_by(executable, None)?;
        let faketime = faketime(&libraries);
        if let Some(clock) = &faketime {
            // What the clock needs besides.
            libraries = loaded_by(executable, Some(clock))?.1;
        }
        let mut context = Context::new();
        context.file("Dockerfile", DOCKERFILE.as_bytes(), 0o644)?;
        context.copy("root/fencepost", executable)?;
        if let Some(loader) = &loader {
            // Its path is written into the executable.
            let inside = loader.strip_prefix("/").unwrap_or(loader);
            context.copy(&format!("root/{}", inside.display()), loader)?;
        }
        for library in libraries.iter().chain(&faketime) {
            let name = library.file_name().unwrap_or_default().to_string_lossy();
            context.copy(&format!("root/{LIBRARIES}/{name}"), library)?;
        }
        // Whoever a service runs as, its volume and its scratch files are its own.
        context.folder("root/data", 0o1777)?;
        context.folder("root/tmp", 0o1777)?;
        let context = context.finish()?;
        let digest = Sha256::digest(&context);
        let digits: String = digest[..6]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let has_clock = faketime.is_some();
        let files = [executable.to_owned()].into_iter().chain(loader);
        Ok(Self {
            context,
            tag: format!("{REPOSITORY}:{digits}"),
            files: files.chain(libraries).chain(faketime).collect(),
            faketime: has_clock,
        })
    }

    /// Builds the image unless it is there; says whether it was built.
    ///
    /// # Errors
    /// When the engine cannot build it.
    pub async fn ensure(&self, engine: &Engine) -> Result<bool, HarnessError> {
        if engine.has_image(&self.tag).await? {
            return Ok(false);
        }
        engine.build(&self.tag, self.context.clone()).await?;
        Ok(true)
    }

    /// How large the build context is, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.context.len()
    }
}

/// The loader and the libraries of an executable, as the loader itself reports them; nothing for one that is static.
fn loaded_by(
    executable: &Path,
    preloaded: Option<&Path>,
) -> Result<(Option<PathBuf>, Vec<PathBuf>), HarnessError> {
    let unbuildable = |why: String| {
        HarnessError::node(
            "image",
            format!(
                "the libraries of {} are not known: {why}",
                executable.display()
            ),
        )
    };
    // A dynamic executable is not run then: its loader lists what it would load. A static one only tells its version.
    let mut command = Command::new(executable);
    command.arg("--version").env("LD_TRACE_LOADED_OBJECTS", "1");
    if let Some(library) = preloaded {
        command.env("LD_PRELOAD", library);
    }
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| unbuildable(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (loader, libraries) = listed(&text).map_err(unbuildable)?;
    let libraries = libraries
        .into_iter()
        .filter(|path| Some(path.as_path()) != preloaded);
    Ok((loader, libraries.collect()))
}

/// Reads the loader's list: `libc.so.6 => /lib/libc.so.6 (0x…)` and, without a name, the loader itself.
fn listed(text: &str) -> Result<(Option<PathBuf>, Vec<PathBuf>), String> {
    let (mut loader, mut libraries) = (None, Vec::new());
    for line in text.lines().map(str::trim) {
        let path = |text: &str| PathBuf::from(text.split(" (").next().unwrap_or(text).trim());
        match line.split_once(" => ") {
            Some((name, "not found")) => return Err(format!("{name} is not on this machine")),
            Some((name, found)) if name.starts_with('/') => {
                // A loader that is found under another path than the executable names.
                let _ = found;
                loader = Some(path(name));
            }
            Some((_, found)) => libraries.push(path(found)),
            // The loader comes last; what is preloaded comes first, and is known without the list.
            None if line.starts_with('/') => loader = Some(path(line)),
            // The kernel's own, or a static program's version.
            None => {}
        }
    }
    Ok((loader, libraries))
}

/// A clock that can be preloaded, if this machine has one beside the libraries.
fn faketime(libraries: &[PathBuf]) -> Option<PathBuf> {
    let beside = libraries.iter().filter_map(|library| {
        let folder = library.parent()?;
        // Merged or not, it is packaged under /usr.
        let inside = folder
            .strip_prefix("/usr")
            .or_else(|_| folder.strip_prefix("/"))
            .ok()?;
        Some(Path::new("/usr").join(inside).join(FAKETIME))
    });
    let mut beside = beside.filter(|path| path.is_file());
    beside.next()
}

/// A build context under way.
struct Context(tar::Builder<Vec<u8>>);

impl Context {
    fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn copy(&mut self, inside: &str, from: &Path) -> Result<(), HarnessError> {
        let bytes = std::fs::read(from)
            .map_err(|error| HarnessError::node("image", format!("{}: {error}", from.display())))?;
        self.file(inside, &bytes, 0o755)
    }

    fn file(&mut self, inside: &str, bytes: &[u8], mode: u32) -> Result<(), HarnessError> {
        self.entry(inside, bytes, mode, tar::EntryType::Regular)
    }

    fn folder(&mut self, inside: &str, mode: u32) -> Result<(), HarnessError> {
        self.entry(&format!("{inside}/"), &[], mode, tar::EntryType::Directory)
    }

    /// Without times and owners: the same files are the same archive.
    fn entry(
        &mut self,
        inside: &str,
        bytes: &[u8],
        mode: u32,
        kind: tar::EntryType,
    ) -> Result<(), HarnessError> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(bytes.len() as u64);
        header.set_mtime(0);
        self.0
            .append_data(&mut header, inside, bytes)
            .map_err(|error| HarnessError::node("image", format!("{inside}: {error}")))
    }

    fn finish(self) -> Result<Vec<u8>, HarnessError> {
        self.0
            .into_inner()
            .map_err(|error| HarnessError::node("image", error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_list_is_read_with_and_without_a_loader() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f1)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f2)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f3)\n";
        let (loader, libraries) = listed(text).expect("a fine list");
        assert_eq!(loader, Some("/lib64/ld-linux-x86-64.so.2".into()));
        assert_eq!(
            libraries,
            [
                PathBuf::from("/lib/x86_64-linux-gnu/libgcc_s.so.1"),
                "/lib/x86_64-linux-gnu/libc.so.6".into()
            ]
        );
        assert_eq!(listed("fencepost 0.1.0\n"), Ok((None, Vec::new())));
        assert_eq!(
            listed("\tlibx.so.1 => not found\n"),
            Err("libx.so.1 is not on this machine".to_owned())
        );
    }

    #[test]
    fn one_executable_gives_one_tag_and_another_gives_another() {
        let program = Path::new("/bin/true");
        let one = Recipe::of(program).expect("it is there");
        assert_eq!(one.tag, Recipe::of(program).expect("still there").tag);
        assert_ne!(
            one.tag,
            Recipe::of(Path::new("/bin/false")).expect("there").tag
        );
        let why = Recipe::of(Path::new("/no/such")).expect_err("nothing there");
        assert!(
            why.to_string()
                .starts_with("image: the libraries of /no/such are not known: ")
        );
    }
}
