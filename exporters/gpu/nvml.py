"""The driver's Python bindings, each call guarded: a value, or one word why there is none.

`nvidia-ml-py` decodes names strictly, raises errors that are no `NVMLError` and rebuilds its
structures with every call; what it gets wrong is put right here and nowhere else.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from exporters.gpu.failure import reason_of

__all__ = ["ALL_LINKS", "FieldBatch", "Nvml", "ProcessList", "Unavailable"]

ALL_LINKS = 0xFFFFFFFF
_SIGNED = {4: "sllVal", 5: "siVal"}  # type word of a field value: where a signed one lies
_UNSIGNED = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 6: "usVal"}


class Unavailable(Exception):  # noqa: N818 - it is no error: a value that is not there
    """The driver gives no value; `reason` is the word for it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Nvml:
    """`pynvml`, loaded in this process."""

    def __init__(self) -> None:
        import pynvml  # type: ignore[import-untyped]  # noqa: PLC0415 - only a reading process pays

        self.raw: Any = pynvml

    def ask(self, call: str, *arguments: Any) -> Any:
        """One call by its Python name; raises Unavailable."""
        function = getattr(self.raw, call, None)
        if function is None:
            raise Unavailable("not_supported")
        return self.guard(function, *arguments)

    def guard(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The same for any function that calls the driver."""
        try:
            return function(*arguments)
        except self.raw.NVMLError as error:
            raise Unavailable(reason_of(int(error.value))) from None
        except self.raw.NVMLLibraryMismatchError:  # a symbol that this driver does not have
            raise Unavailable("not_supported") from None
        except UnicodeDecodeError:
            raise Unavailable("undecodable") from None

    def text(self, call: str, *arguments: Any) -> str:
        """A name, whatever bytes it is made of."""
        function = getattr(self.raw, call)
        found = self.guard(getattr(function, "__wrapped__", function), *arguments)
        return found.decode(errors="replace") if isinstance(found, bytes) else str(found)

    def address(self, handle: Any) -> int:
        """What tells one handle from another."""
        return int(ctypes.cast(handle, ctypes.c_void_p).value or 0)


class ProcessList:
    """The driver's lists of processes, in an array that is made once.

    The bindings ask for the length first and believe it, whatever it is.
    """

    _MOST = 1024
    _ROOM = 1400  # why more: drivers of the R535 age write longer records than they were asked for

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._array = (nvml.raw.c_nvmlProcessInfo_v2_t * self._ROOM)()
        self._number = ctypes.c_uint()

    def read(self, call: str, handle: Any) -> list[tuple[int, int | None]]:
        """Pid and bytes of each, None where the driver does not say. Raises Unavailable."""
        self._number.value = self._MOST
        self._nvml.guard(self._call, call, handle)
        listed = self._array[: min(self._number.value, self._MOST)]
        blank = self._nvml.raw.NVML_VALUE_NOT_AVAILABLE_ulonglong.value
        return [(p.pid, None if p.usedGpuMemory == blank else p.usedGpuMemory) for p in listed]

    def _call(self, call: str, handle: Any) -> None:
        raw = self._nvml.raw
        function = raw._nvmlGetFunctionPointer(call)  # noqa: SLF001 - as the bindings do
        raw._nvmlCheckReturn(  # noqa: SLF001
            function(handle, ctypes.byref(self._number), ctypes.byref(self._array))
        )


class FieldBatch:
    """Many field values in one call, in an array that is made once; fields fail one by one."""

    def __init__(self, nvml: Nvml, fields: Sequence[tuple[int, int]]) -> None:
        """`fields`: id and scope of each."""
        self._nvml = nvml
        self._array = (nvml.raw.c_nvmlFieldValue_t * len(fields))()
        for place, (number, scope) in enumerate(fields):
            self._array[place].fieldId, self._array[place].scopeId = number, scope
        self._number = ctypes.c_int32(len(fields))

    def read(self, handle: Any) -> list[int | float | str]:
        """For each field a number, or the word why there is none."""
        self._nvml.guard(self._call, handle)
        return [self._value(one) for one in self._array]

    def _call(self, handle: Any) -> None:
        raw = self._nvml.raw
        # why not raw.nvmlDeviceGetFieldValues: it makes the array anew, at ten times the cost
        function = raw._nvmlGetFunctionPointer("nvmlDeviceGetFieldValues")  # noqa: SLF001
        raw._nvmlCheckReturn(function(handle, self._number, ctypes.byref(self._array)))  # noqa: SLF001

    @staticmethod
    def _value(one: Any) -> int | float | str:
        if one.nvmlReturn:
            return reason_of(int(one.nvmlReturn))
        kind = int(one.valueType)
        attribute = _SIGNED.get(kind) or _UNSIGNED.get(kind)
        if attribute is None:
            return "not_supported"
        number: int | float = getattr(one.value, attribute)
        return number
