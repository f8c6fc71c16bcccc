//! Vulkan, as far as it is needed to map memory of the device where the host reaches it.
//!
//! The loader is opened at run time. That there is none, that it knows no driver of the device, or that the driver lets the
//! host reach no memory, is an ordinary answer: a clause that says so.

use std::fmt;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use libloading::Library;

/// What the loader is called.
const LOADER: &str = "libvulkan.so.1";

/// The device's own memory that the host reaches and whose writes need no call to be seen.
const HOST_VISIBLE_KIND: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::DEVICE_LOCAL.as_raw()
        | vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw()
        | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw(),
);

/// How memory comes: as a file that another interface of the same driver has made.
const FILE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;

/// A device of Vulkan.
pub(super) struct Vulkan {
    device: ash::Device,
    /// The types of memory that the host reaches.
    kinds: Vec<u32>,
    /// Goes after the device.
    _instance: VulkanInstance,
}

impl fmt::Debug for Vulkan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vulkan(memory of types {:?})", self.kinds)
    }
}

/// Why memory was not taken.
#[derive(Debug)]
pub(super) enum ImportError {
    /// There is no room for it where the host reaches.
    Exhausted,
    /// Something else.
    Because(String),
}

/// A result that names its call.
fn checked<T>(call: &str, result: Result<T, vk::Result>) -> Result<T, String> {
    result.map_err(|error| format!("{call} gives {error:?}"))
}

/// What the loader gives, destroyed with this.
struct VulkanInstance(ash::Instance);

impl VulkanInstance {
    fn new() -> Result<Self, String> {
        // SAFETY: loading the library runs its initialisers, which are the loader's own.
        let library = unsafe { Library::new(LOADER) }
            .map_err(|_| format!("there is no Vulkan here: {LOADER} cannot be loaded"))?;
        // Drivers do not take it well if they are unloaded, so they stay.
        let library = std::mem::ManuallyDrop::new(library);
        // SAFETY: the loader's one entry has this type.
        let entry = unsafe { library.get::<vk::PFN_vkGetInstanceProcAddr>(c"vkGetInstanceProcAddr") };
        let get_instance_proc_addr = *entry.map_err(|_| format!("{LOADER} is no Vulkan loader"))?;
        // SAFETY: the function is the loader's, which stays.
        let entry = unsafe { ash::Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr }) };
        // SAFETY: the loader writes one number.
        let version =
            checked("vkEnumerateInstanceVersion", unsafe { entry.try_enumerate_instance_version() })?;
        if version.is_none_or(|version| version < vk::API_VERSION_1_1) {
            return Err("the Vulkan loader is older than 1.1".into());
        }
        let app = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_1);
        let info = vk::InstanceCreateInfo::default().application_info(&app);
        // SAFETY: the description lives as long as the call.
        match unsafe { entry.create_instance(&info, None) } {
            Ok(instance) => Ok(VulkanInstance(instance)),
            Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER) => Err("Vulkan finds no driver".into()),
            Err(error) => Err(format!("vkCreateInstance gives {error:?}")),
        }
    }

    /// The device that CUDA calls by this number.
    fn find(&self, uuid: [u8; 16]) -> Result<vk::PhysicalDevice, String> {
        // SAFETY: the instance is there.
        let all = checked("vkEnumeratePhysicalDevices", unsafe { self.0.enumerate_physical_devices() })?;
        let same = |device: &vk::PhysicalDevice| {
            let mut id = vk::PhysicalDeviceIDProperties::default();
            // SAFETY: the handle is the instance's, which was asked for a version that has the call.
            let version = unsafe { self.0.get_physical_device_properties(*device) }.api_version;
            if version >= vk::API_VERSION_1_1 {
                let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
                // SAFETY: as above, and so is the device's.
                unsafe { self.0.get_physical_device_properties2(*device, &mut all) };
            }
            id.device_uuid == uuid
        };
        all.into_iter().find(same).ok_or_else(|| "Vulkan finds no driver of this GPU".into())
    }

    /// The types of a device's memory that the host reaches.
    fn kinds(&self, device: vk::PhysicalDevice) -> Vec<u32> {
        // SAFETY: the handle is the instance's.
        let memory = unsafe { self.0.get_physical_device_memory_properties(device) };
        let types = memory.memory_types_as_slice();
        let reached =
            types.iter().zip(0..).filter(|(kind, _)| kind.property_flags.contains(HOST_VISIBLE_KIND));
        reached.map(|(_, at)| at).collect()
    }

    /// Opens a device, to take memory from files.
    fn open(&self, device: vk::PhysicalDevice) -> Result<ash::Device, String> {
        let name = ash::khr::external_memory_fd::NAME;
        // SAFETY: the handle is the instance's.
        let has = unsafe { self.0.enumerate_device_extension_properties(device) };
        let has = checked("vkEnumerateDeviceExtensionProperties", has)?;
        if !has.iter().any(|one| one.extension_name_as_c_str() == Ok(name)) {
            return Err("the Vulkan driver takes no memory from files".into());
        }
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(0).queue_priorities(&[1.0])];
        let names = [name.as_ptr()];
        let info =
            vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
        // SAFETY: the handle is the instance's, and the description lives as long as the call. Every device has a queue
        // of the first family.
        checked("vkCreateDevice", unsafe { self.0.create_device(device, &info, None) })
    }
}

impl Drop for VulkanInstance {
    fn drop(&mut self) {
        // SAFETY: its devices are gone, since they keep it.
        unsafe { self.0.destroy_instance(None) }
    }
}

impl Vulkan {
    /// The device that CUDA calls by this number, or why memory of it cannot be mapped.
    pub(super) fn open(uuid: [u8; 16]) -> Result<Vulkan, String> {
        let instance = VulkanInstance::new()?;
        let device = instance.find(uuid)?;
        let kinds = instance.kinds(device);
        if kinds.is_empty() {
            return Err("the Vulkan driver lets the host reach no memory of this GPU".into());
        }
        Ok(Vulkan { device: instance.open(device)?, kinds, _instance: instance })
    }

    /// Maps memory that a file stands for.
    pub(super) fn import(self: &Arc<Self>, file: OwnedFd, bytes: usize) -> Result<HostMapping, ImportError> {
        let mut refused = ImportError::Exhausted;
        for kind in &self.kinds {
            let copy = file.try_clone().map_err(|error| ImportError::Because(error.to_string()))?;
            match self.take(*kind, copy, bytes) {
                Ok(memory) => return self.map(memory, bytes),
                Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY) => {}
                Err(error) => refused = ImportError::Because(format!("vkAllocateMemory gives {error:?}")),
            }
        }
        Err(refused)
    }

    /// Takes the memory that a file stands for as memory of a type.
    fn take(&self, kind: u32, file: OwnedFd, bytes: usize) -> Result<vk::DeviceMemory, vk::Result> {
        let number = file.into_raw_fd();
        let mut import = vk::ImportMemoryFdInfoKHR::default().handle_type(FILE).fd(number);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(bytes as u64)
            .memory_type_index(kind)
            .push_next(&mut import);
        // SAFETY: the description lives as long as the call; the file is of the same driver's making and has as many
        // bytes.
        let taken = unsafe { self.device.allocate_memory(&info, None) };
        if taken.is_err() {
            // SAFETY: what refuses a file leaves it to whoever opened it.
            drop(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(number) });
        }
        taken
    }

    fn map(self: &Arc<Self>, memory: vk::DeviceMemory, bytes: usize) -> Result<HostMapping, ImportError> {
        // SAFETY: the memory was taken right before, as large, and is mapped once.
        let start = unsafe { self.device.map_memory(memory, 0, bytes as u64, vk::MemoryMapFlags::empty()) };
        let start = start.map_err(|error| format!("vkMapMemory gives {error:?}"));
        let start = start.and_then(|start| NonNull::new(start.cast()).ok_or_else(|| "no mapping".into()));
        start.map(|start| HostMapping { vulkan: self.clone(), memory, start }).map_err(|why| {
            // SAFETY: the memory was taken by the caller, and nobody else knows of it.
            unsafe { self.device.free_memory(memory, None) };
            ImportError::Because(why)
        })
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // SAFETY: its windows are gone, since they keep it.
        unsafe { self.device.destroy_device(None) }
    }
}

/// Memory of the device where the host reaches it, until it is dropped.
pub(super) struct HostMapping {
    vulkan: Arc<Vulkan>,
    memory: vk::DeviceMemory,
    start: NonNull<u8>,
}

// SAFETY: nothing is done through the pointer here, and Vulkan's calls on a device may come from any thread.
unsafe impl Send for HostMapping {}

impl fmt::Debug for HostMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMapping({:p})", self.start)
    }
}

impl HostMapping {
    /// Its first byte, at the start of a page. It is to be written, never read.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for HostMapping {
    fn drop(&mut self) {
        // SAFETY: the memory is this window's own; freeing it takes the mapping away.
        unsafe { self.vulkan.device.free_memory(self.memory, None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever this machine has: no device has this number.
    #[test]
    fn no_vulkan_is_an_ordinary_answer() {
        let why = Vulkan::open([0xa5; 16]).expect_err("there is no such device");
        assert!(why.contains("Vulkan"), "{why}");
    }
}
