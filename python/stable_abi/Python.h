/* What isobit's extension uses of CPython's stable ABI, as of 3.11.
 *
 * The real Python.h is in a separate package of most Linux distributions.
 * build_native.py takes this file where that is missing, so that `pip install`
 * needs nothing from the system. The stable ABI is frozen: these declarations
 * are right for every CPython from 3.11 on (not for its free-threaded builds).
 * tests/python/test_packaging.py builds the extension with it. */
#ifndef ISOBIT_STABLE_ABI_PYTHON_H_
#define ISOBIT_STABLE_ABI_PYTHON_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef ssize_t Py_ssize_t;

/* ---- objects and types ---- */
typedef struct _typeobject PyTypeObject;
typedef struct _object {
  Py_ssize_t ob_refcnt;
  PyTypeObject *ob_type;
} PyObject;
typedef struct _ts PyThreadState;

void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *);
#define Py_INCREF(o) Py_IncRef((PyObject *)(o))
#define Py_DECREF(o) Py_DecRef((PyObject *)(o))
#define Py_XDECREF(o) Py_DecRef((PyObject *)(o))
PyObject *Py_NewRef(PyObject *);

#define Py_TYPE(o) (((PyObject *)(o))->ob_type)
#define Py_IS_TYPE(o, type) (Py_TYPE(o) == (type))
unsigned long PyType_GetFlags(PyTypeObject *);
PyObject *PyType_GetName(PyTypeObject *);
void *PyType_GetSlot(PyTypeObject *, int);
int PyType_IsSubtype(PyTypeObject *, PyTypeObject *);
#define Py_tp_descr_get 54
typedef PyObject *(*descrgetfunc)(PyObject *, PyObject *, PyObject *);
#define PY_HAS_FLAG(o, bit) ((PyType_GetFlags(Py_TYPE(o)) & (1UL << (bit))) != 0)
#define PyList_Check(o) PY_HAS_FLAG(o, 25)
#define PyTuple_Check(o) PY_HAS_FLAG(o, 26)

extern PyTypeObject PyBool_Type, PyLong_Type, PyFloat_Type, PyTuple_Type, PyDict_Type, PyCFunction_Type;
#define PyBool_Check(o) Py_IS_TYPE(o, &PyBool_Type)
#define PyLong_CheckExact(o) Py_IS_TYPE(o, &PyLong_Type)
#define PyFloat_CheckExact(o) Py_IS_TYPE(o, &PyFloat_Type)

extern PyObject _Py_NoneStruct, _Py_TrueStruct, _Py_FalseStruct, _Py_NotImplementedStruct;
#define Py_None (&_Py_NoneStruct)
#define Py_True (&_Py_TrueStruct)
#define Py_False (&_Py_FalseStruct)
#define Py_NotImplemented (&_Py_NotImplementedStruct)
#define Py_RETURN_NONE return Py_NewRef(Py_None)
#define Py_RETURN_TRUE return Py_NewRef(Py_True)
#define Py_RETURN_FALSE return Py_NewRef(Py_False)
#define Py_RETURN_NOTIMPLEMENTED return Py_NewRef(Py_NotImplemented)

/* ---- modules and functions ---- */
#define PyMODINIT_FUNC __attribute__((visibility("default"))) PyObject *
typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);
typedef PyObject *(*_PyCFunctionFast)(PyObject *, PyObject *const *, Py_ssize_t);
typedef struct PyMethodDef {
  const char *ml_name;
  PyCFunction ml_meth;
  int ml_flags;
  const char *ml_doc;
} PyMethodDef;
#define METH_VARARGS 0x0001
#define METH_KEYWORDS 0x0002
#define METH_NOARGS 0x0004
#define METH_O 0x0008
#define METH_FASTCALL 0x0080

typedef int (*visitproc)(PyObject *, void *);
typedef int (*traverseproc)(PyObject *, visitproc, void *);
typedef int (*inquiry)(PyObject *);
typedef void (*freefunc)(void *);
typedef struct PyModuleDef_Base {
  PyObject ob_base;
  PyObject *(*m_init)(void);
  Py_ssize_t m_index;
  PyObject *m_copy;
} PyModuleDef_Base;
typedef struct PyModuleDef_Slot {
  int slot;
  void *value;
} PyModuleDef_Slot;
typedef struct PyModuleDef {
  PyModuleDef_Base m_base;
  const char *m_name, *m_doc;
  Py_ssize_t m_size;
  PyMethodDef *m_methods;
  PyModuleDef_Slot *m_slots;
  traverseproc m_traverse;
  inquiry m_clear;
  freefunc m_free;
} PyModuleDef;
#define PyModuleDef_HEAD_INIT {{1, NULL}, NULL, 0, NULL}
PyObject *PyModule_Create2(PyModuleDef *, int);
#define PyModule_Create(def) PyModule_Create2(def, 3 /* PYTHON_ABI_VERSION */)
PyObject *PyModule_GetDict(PyObject *);
PyObject *PyCFunction_NewEx(PyMethodDef *, PyObject *, PyObject *);
PyCFunction PyCFunction_GetFunction(PyObject *);
PyObject *PyCFunction_GetSelf(PyObject *);
int PyCFunction_GetFlags(PyObject *);

/* ---- arguments, calls and attributes ---- */
int PyArg_ParseTuple(PyObject *, const char *, ...);
PyObject *Py_BuildValue(const char *, ...);
PyObject *PyObject_Call(PyObject *, PyObject *, PyObject *);
PyObject *PyObject_CallNoArgs(PyObject *);
PyObject *PyObject_CallFunction(PyObject *, const char *, ...);
PyObject *PyObject_CallFunctionObjArgs(PyObject *, ...);
PyObject *PyObject_CallMethod(PyObject *, const char *, const char *, ...);
PyObject *PyObject_GetAttr(PyObject *, PyObject *);
PyObject *PyObject_GetAttrString(PyObject *, const char *);
int PyObject_HasAttrString(PyObject *, const char *);
int PyObject_IsTrue(PyObject *);
PyObject *PyObject_Str(PyObject *);
int PyIndex_Check(PyObject *);

/* ---- values ---- */
PyObject *PyBool_FromLong(long);
PyObject *PyLong_FromLong(long);
PyObject *PyLong_FromUnsignedLong(unsigned long);
PyObject *PyLong_FromLongLong(long long);
PyObject *PyLong_FromUnsignedLongLong(unsigned long long);
long PyLong_AsLong(PyObject *);
long long PyLong_AsLongLong(PyObject *);
unsigned long long PyLong_AsUnsignedLongLong(PyObject *);
void *PyLong_AsVoidPtr(PyObject *);
double PyFloat_AsDouble(PyObject *);
PyObject *PyUnicode_FromString(const char *);
PyObject *PyUnicode_FromFormat(const char *format, ...);
PyObject *PyUnicode_InternFromString(const char *);
const char *PyUnicode_AsUTF8AndSize(PyObject *, Py_ssize_t *);
PyObject *PyTuple_New(Py_ssize_t);
Py_ssize_t PyTuple_Size(PyObject *);
PyObject *PyTuple_GetItem(PyObject *, Py_ssize_t);
int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *);
PyObject *PyTuple_Pack(Py_ssize_t, ...);
PyObject *PyList_New(Py_ssize_t);
Py_ssize_t PyList_Size(PyObject *);
PyObject *PyList_GetItem(PyObject *, Py_ssize_t);
int PyList_SetItem(PyObject *, Py_ssize_t, PyObject *);
PyObject *PyDict_GetItemWithError(PyObject *, PyObject *);
PyObject *PyDict_GetItemString(PyObject *, const char *);
int PyDict_SetItemString(PyObject *, const char *, PyObject *);
int PyDict_DelItemString(PyObject *, const char *);
Py_ssize_t PySequence_Size(PyObject *);
PyObject *PySequence_GetItem(PyObject *, Py_ssize_t);
typedef void (*PyCapsule_Destructor)(PyObject *);
PyObject *PyCapsule_New(void *, const char *, PyCapsule_Destructor);
void *PyCapsule_GetPointer(PyObject *, const char *);
int PyCapsule_IsValid(PyObject *, const char *);
int PyCapsule_SetName(PyObject *, const char *);

/* ---- errors, memory, threads, texts ---- */
extern PyObject *PyExc_AttributeError, *PyExc_BufferError, *PyExc_KeyError, *PyExc_MemoryError,
    *PyExc_NotImplementedError, *PyExc_RuntimeError, *PyExc_TypeError, *PyExc_ValueError;
void PyErr_SetObject(PyObject *, PyObject *);
void PyErr_SetString(PyObject *, const char *);
PyObject *PyErr_Format(PyObject *, const char *, ...);
PyObject *PyErr_NoMemory(void);
PyObject *PyErr_Occurred(void);
int PyErr_ExceptionMatches(PyObject *);
void PyErr_Clear(void);
void PyErr_Fetch(PyObject **, PyObject **, PyObject **);
void PyErr_Restore(PyObject *, PyObject *, PyObject *);
void *PyMem_Malloc(size_t);
void *PyMem_Calloc(size_t, size_t);
void PyMem_Free(void *);
PyThreadState *PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState *);
#define Py_BEGIN_ALLOW_THREADS \
  {                            \
    PyThreadState *py_thread = PyEval_SaveThread();
#define Py_END_ALLOW_THREADS       \
  PyEval_RestoreThread(py_thread); \
  }
int PyOS_snprintf(char *, size_t, const char *, ...);
int PyOS_vsnprintf(char *, size_t, const char *, va_list);
char *PyOS_double_to_string(double, char, int, int, int *);

#endif
