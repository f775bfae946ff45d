//! A tape's file; of a tape that may not grow for ever, the newest two parts.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{io, mem};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use trace_format::{
    BaseState, DeviceId, DeviceMeta, Medium, Meta, ProgramEnd, Record, WriteCause, WriteError,
    Writer,
};

use super::TapeError;
use super::tape_file::{TapeFile, may_be_replaced, older_part, remove_older_part};

/// What is kept free of a part for records that arrive while it is being closed.
const SPARE_MAX_BYTES: u64 = 4 << 20;
/// The same as a share of a small tape.
const SPARE_SHARE: u64 = 16;

/// The two names of a tape, and the files that have them; or a model of both.
pub(super) trait Names {
    /// A file to write to.
    type File: Medium;

    /// Gives the file at `path` the name of the older part, in place of that part.
    fn make_older(&mut self, path: &Path) -> Result<(), TapeError>;

    /// Gives the older part the tape's name, if no file has it.
    fn make_newest(&mut self, path: &Path) -> io::Result<()>;

    /// An empty file at `path`.
    fn create(&mut self, path: &Path) -> Result<Self::File, TapeError>;

    /// Removes the file at `path`.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
}

/// A folder of the system.
pub(super) struct Folder;

impl Names for Folder {
    type File = File;

    fn make_older(&mut self, path: &Path) -> Result<(), TapeError> {
        let older = older_part(path);
        may_be_replaced(&older)?;
        Ok(fs::rename(path, &older).map_err(|error| io_error(&older, error))?)
    }

    fn make_newest(&mut self, path: &Path) -> io::Result<()> {
        let older = older_part(path);
        Ok(renameat_with(CWD, &older, CWD, path, RenameFlags::NOREPLACE)?)
    }

    fn create(&mut self, path: &Path) -> Result<File, TapeError> {
        Ok(TapeFile::replace(path)?.into_parts().1)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// The file that is being written, and what came before it.
pub(super) struct Parts<N: Names = Folder> {
    names: N,
    path: PathBuf,
    meta: Meta,
    max_bytes: Option<u64>,
    writer: Writer<N::File>,
    /// Size of the part before this one, and its records.
    previous_bytes: u64,
    previous_records: u64,
    /// The most that a base state took: the next one will take about as much.
    base_bytes: u64,
}

impl Parts {
    /// Begins the tape, whose file stays locked for as long as this process writes it.
    pub(super) fn begin(
        file: TapeFile,
        meta: Meta,
        max_bytes: Option<u64>,
    ) -> Result<Self, TapeError> {
        let (path, file) = file.into_parts();
        let parts = Self::begin_in(Folder, path, file, meta, max_bytes)?;
        if max_bytes.is_some() {
            remove_older_part(&parts.path)?;
        }
        Ok(parts)
    }
}

impl<N: Names> Parts<N> {
    /// Begins the tape in an empty file at `path`.
    pub(super) fn begin_in(
        names: N,
        path: PathBuf,
        file: N::File,
        mut meta: Meta,
        max_bytes: Option<u64>,
    ) -> Result<Self, TapeError> {
        meta.part = max_bytes.map(|_| 1);
        let writer = Writer::new(file, path.display().to_string(), &meta)?;
        let (previous_bytes, previous_records, base_bytes) = (0, 0, 0);
        Ok(Self {
            names,
            path,
            meta,
            max_bytes,
            writer,
            previous_bytes,
            previous_records,
            base_bytes,
        })
    }

    /// The part that is being written.
    pub(super) fn writer(&mut self) -> &mut Writer<N::File> {
        &mut self.writer
    }

    /// Puts devices into the tape's description.
    pub(super) fn add_devices<'a>(
        &mut self,
        devices: impl Iterator<Item = &'a DeviceMeta>,
    ) -> Result<(), WriteError> {
        for new in devices {
            self.meta.devices.retain(|device| device.id != new.id);
            self.meta.devices.push(new.clone());
        }
        self.writer.meta(&self.meta)
    }

    /// Writes a device's state.
    pub(super) fn base(&mut self, device: DeviceId, base: &BaseState) -> Result<(), WriteError> {
        let before_bytes = self.writer.size_at_most_bytes();
        self.writer.base(device, base)?;
        let size_bytes = self.writer.size_at_most_bytes().saturating_sub(before_bytes);
        self.base_bytes = self.base_bytes.max(size_bytes);
        Ok(())
    }

    /// Whether another part has to begin for the tape to stay below its limit.
    pub(super) fn is_full(&self) -> bool {
        let Some(max_bytes) = self.max_bytes else { return false };
        let spare_bytes = SPARE_MAX_BYTES.min(max_bytes / SPARE_SHARE) + 2 * self.base_bytes;
        let end_bytes = self.writer.size_at_most_bytes() + spare_bytes;
        end_bytes > max_bytes / 2 || end_bytes + self.previous_bytes > max_bytes
    }

    /// Finishes this part, which has so many records, and begins the next one, which wants the state of every device.
    pub(super) fn turn(&mut self, records: u64) -> Result<(), TapeError> {
        self.writer.flush()?;
        let size_bytes = self.writer.size_at_most_bytes();
        self.names.make_older(&self.path)?;
        // The part before this one is replaced.
        self.meta.dropped_bytes += mem::take(&mut self.previous_bytes);
        self.meta.dropped_records += mem::take(&mut self.previous_records);
        let mut meta = self.meta.clone();
        meta.part = meta.part.map(|part| part + 1);
        let next = self.begin_part(&meta).inspect_err(|_| {
            // This part is the last one then, and gets the tape's name back.
            if let Err(error) = self.names.make_newest(&self.path) {
                tracing::warn!("the tape is {}: {error}", older_part(&self.path).display());
            }
        })?;
        self.meta = meta;
        (self.previous_bytes, self.previous_records) = (size_bytes, records);
        let finished = mem::replace(&mut self.writer, next);
        finished.finish()?;
        Ok(())
    }

    fn begin_part(&mut self, meta: &Meta) -> Result<Writer<N::File>, TapeError> {
        let file = self.names.create(&self.path)?;
        let begun = Writer::new(file, self.path.display().to_string(), meta);
        Ok(begun.inspect_err(|_| _ = self.names.remove(&self.path))?)
    }

    /// An error if the states of memory alone fill a part.
    pub(super) fn has_room(&self) -> Result<(), TapeError> {
        match self.max_bytes {
            Some(max_bytes) if self.is_full() => {
                let (path, base_bytes) = (self.path.clone(), self.base_bytes);
                Err(TapeError::TooSmall { path, base_bytes, max_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Writes how the program ended, if that is known, and the index, and waits until the tape is on its disk. A part
    /// that ended before is not waited for: its disk has seconds more.
    pub(super) fn finish(mut self, end: Option<ProgramEnd>) -> Result<PathBuf, WriteError> {
        if end.is_some() {
            self.meta.end = end;
            self.writer.flush()?;
            self.writer.meta(&self.meta)?;
        }
        self.writer.finish_on_disk()?;
        Ok(self.path)
    }

    /// Finishes a part that could not be written on, with what is missing on it.
    pub(super) fn finish_short(
        &mut self,
        end: ProgramEnd,
        lost: &[(DeviceId, Record)],
    ) -> Result<(), WriteError> {
        self.meta.end = Some(end);
        self.writer.finish_short(&self.meta, lost)
    }

    /// Where the newest part is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn io_error(path: &Path, error: io::Error) -> WriteError {
    WriteError { name: path.display().to_string(), cause: WriteCause::Io(error) }
}
