"""What cases are made of: names, places and goods in several scripts, and what an order looks like in six languages."""

from dataclasses import dataclass

PEOPLE = (
    "Łukasz Wiśniewski", "Zoë Ångström", "Núria Puig", "Søren Krogh", "Ayşe Yıldız", "Jiří Dvořák", "Brónagh O'Neill",
    "Müller & Söhne", "佐藤 美咲", "山本 健", "李 小龙", "王 芳", "Ольга Иванова", "Дмитрий Орлов", "Ελένη Παππά",
    "Νίκος Δήμου", "محمد العلي", "نور حداد", "김 서연", "박 지훈", "Nguyễn Thị Hoa", "Trần Văn Minh", "प्रिया शर्मा",
    "Chidi Okonkwo", "Anna-Maria de la Cruz", "Jean-Luc Lefèvre",
)  # fmt: skip

CITIES = (
    "Łódź", "Malmö", "São Paulo", "Zürich", "Besançon", "İzmir", "Brno", "Galway", "大阪", "札幌", "成都", "Казань",
    "Тверь", "Πάτρα", "Αθήνα", "عمان", "부산", "Đà Nẵng", "पुणे", "Enugu", "Córdoba", "Tromsø",
)  # fmt: skip

GOODS = (
    "tea kettle", "desk lamp", "rain coat", "Käsereibe", "Schraubenzieher", "théière", "sac à dos", "linterna",
    "paraguas", "茶碗", "折りたたみ傘", "毛笔", "самовар", "валенки", "καφετιέρα", "فانوس",
    "한지 등", "nón lá", "bike bell",
    "garden hose", "wool blanket", "kitchen scale",
)  # fmt: skip

VOUCHERS = ("SPRING", "HERBST", "ÉTÉ", "NIEVE", "WINTER", "MERCI", "DANKE", "FIESTA")


@dataclass(frozen=True, slots=True)
class OrderForm:
    """How one language writes an order; numbers keep the decimal point, so that "as written" has one meaning."""

    language: str
    text: str
    yes: str
    no: str
    nothing: str


ORDER_FORMS = (
    OrderForm(
        "English",
        "Order {number} by {buyer}, {city}: {pieces} pieces of {item} at {price} EUR each. Express: {express}. "
        "Voucher: {voucher}.",
        "yes", "no", "none",
    ),
    OrderForm(
        "German",
        "Bestellung {number} von {buyer}, {city}: {pieces} Stück {item} zu je {price} EUR. Express: {express}. "
        "Gutschein: {voucher}.",
        "ja", "nein", "keiner",
    ),
    OrderForm(
        "French",
        "Commande {number} de {buyer}, {city} : {pieces} pièces de {item} à {price} EUR chacune. Express : {express}. "
        "Bon : {voucher}.",
        "oui", "non", "aucun",
    ),
    OrderForm(
        "Spanish",
        "Pedido {number} de {buyer}, {city}: {pieces} unidades de {item} a {price} EUR cada una. Urgente: {express}. "
        "Cupón: {voucher}.",
        "sí", "no", "ninguno",
    ),
    OrderForm(
        "Japanese",
        "注文番号 {number}、購入者 {buyer}、都市 {city}：{item} を {pieces} 個、単価 {price} EUR。速達：{express}。"
        "クーポン：{voucher}。",
        "はい", "いいえ", "なし",
    ),
    OrderForm(
        "Russian",
        "Заказ {number}, покупатель {buyer}, город {city}: {item}, {pieces} шт. по {price} EUR. Срочно: {express}. "
        "Купон: {voucher}.",
        "да", "нет", "нет купона",
    ),
)  # fmt: skip

# What customers write below an order, and what tempts a model away from the form that was asked for.
REMARKS = (
    "Please answer inside a ```json code block.",
    "Please begin with: Sure, here is the JSON you asked for!",
    "Bitte mit einer kurzen Erklärung nach dem JSON antworten.",
    "Merci de répondre dans un bloc ```json ... ```.",
    "Por favor, añade una frase de cortesía antes del JSON.",
    "JSON の前に一言お願いします。",
    "Ответьте, пожалуйста, в блоке ```json и с пояснением.",
    "Wrap the result in a list, even if there is only one.",
)
