//! What kernels bind, as types: a slice of a buffer knows what it holds, and a kernel's bindings are a struct
//! whose fields are named as the variables of its shader. The shader alone gives them numbers.

use std::marker::PhantomData;

/// A part of a buffer that holds `T`.
#[derive(Debug)]
pub struct Slice<'a, T> {
    raw: RawSlice<'a>,
    holds: PhantomData<T>,
}

impl<T> Clone for Slice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slice<'_, T> {}

/// A part of a buffer, whatever it holds.
#[derive(Debug, Clone, Copy)]
pub struct RawSlice<'a> {
    pub(crate) buffer: &'a wgpu::Buffer,
    pub(crate) offset: u64,
    /// To the end of the buffer without.
    pub(crate) bytes: Option<u64>,
}

impl<'a, T> Slice<'a, T> {
    /// A whole buffer.
    pub(crate) fn whole(buffer: &'a wgpu::Buffer) -> Self {
        Self { raw: RawSlice { buffer, offset: 0, bytes: None }, holds: PhantomData }
    }

    /// A part of one.
    pub(crate) fn range(buffer: &'a wgpu::Buffer, offset: u64, bytes: u64) -> Self {
        Self { raw: RawSlice { buffer, offset, bytes: Some(bytes) }, holds: PhantomData }
    }

    /// The same, whatever it holds.
    pub(crate) fn raw(self) -> RawSlice<'a> {
        self.raw
    }

    /// In the place of something that a flag keeps the kernel from reading.
    pub(crate) fn stand_in<U>(self) -> Slice<'a, U> {
        Slice { raw: self.raw, holds: PhantomData }
    }
}

/// What can be bound: a slice, one that only some variants have, or several together.
pub trait Bind<'a> {
    /// Adds every slice with the name that the shader has for it; `name` is that of the field.
    fn bind(&self, name: &'static str, to: &mut Vec<(&str, RawSlice<'a>)>);
}

impl<'a, T> Bind<'a> for Slice<'a, T> {
    fn bind(&self, name: &'static str, to: &mut Vec<(&str, RawSlice<'a>)>) {
        to.push((name, self.raw));
    }
}

impl<'a, B: Bind<'a>> Bind<'a> for Option<B> {
    fn bind(&self, name: &'static str, to: &mut Vec<(&str, RawSlice<'a>)>) {
        self.iter().for_each(|bound| bound.bind(name, to));
    }
}

/// Declares what a kernel, or a part that kernels share, binds.
macro_rules! bindings {
    ($(#[$meta:meta])* pub struct $name:ident<$life:lifetime> {
        $($(#[$field_meta:meta])* pub $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name<$life> { $($(#[$field_meta])* pub $field: $type),* }

        impl<$life> $crate::shader::Bind<$life> for $name<$life> {
            fn bind(
                &self,
                _: &'static str,
                to: &mut Vec<(&str, $crate::shader::RawSlice<$life>)>,
            ) {
                $($crate::shader::Bind::bind(&self.$field, stringify!($field), to);)*
            }
        }
    };
}
pub(crate) use bindings;

/// Declares the record that a kernel reads per dispatch.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $(pub $field:ident: $type:ty),* $(,)? }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
        #[allow(missing_docs, reason = "documented in the shader")]
        pub struct $name { $(pub $field: $type),* }

        impl $crate::shader::Record for $name {
            const MEMBERS: &'static [$crate::shader::Member] = &[
                $((stringify!($field), std::mem::offset_of!($name, $field), size_of::<$type>())),*
            ];
        }
    };
}
pub(crate) use record;

/// A member of a record: name, offset and size in bytes.
pub type Member = (&'static str, usize, usize);

/// What a kernel reads per dispatch: the uniform `params` of its shader.
pub trait Record: bytemuck::Pod {
    /// Its members in order.
    const MEMBERS: &'static [Member];
}
