"""Common English nouns that tokenizers keep whole: each is one token with a blank before it.

Checked word by word against the tokenizers of SmolLM2, DeepSeek-V4, GPT-2, cl100k and o200k. A server whose tokenizer
splits one of them is found out by calibration, and the word is dropped from its haystacks.
"""

_WORDS = """
ability acid action activity actor age agency air airport almond amount analysis anchor angle animal ankle ant
antenna anthem apple approach area arm armor army arrow art article artist ash atom attention attic aunt author
authority autumn award axe back bag baker ball ballot banana band bank barley barn barrel base basement basket bat
bathroom battery bay beach beam bean bear bedroom bee beef beer behavior bell belt bench benefit bike bill bird
birthday blanket board boat bone book boot border bottle bow bowl box boy brain branch bread brick bridge brother
brush bucket budget buffer builder building bus business butter butterfly button cabbage cabin cabinet cable cache
cake camera camp campaign candle candy canyon capital captain car card career cargo carpet carrot cash castle cat
cave ceiling cell cement center chain chair chance change channel chapter character cheek cheese cherry chicken chin
chocolate choice choir church cinema circle circus city class clay cliff clock closet cloth cloud club cluster coal
coast coat coffee coin collar college colony color comet community company computer condition contest control cook
cookie copper copy corn corner cost cotton country county course court cousin cow crack cream creek crew crowd crown
crystal culture cup cure current curtain dance dancer data daughter dawn day debate debt decade decision deck deer
degree desert design desk development diamond diary diet difference dinner director dish disk dock doctor dog doll
door dough dragon drawer dream dress drill driver drum duck dust ear earth economy edge education effect effort egg
elbow elder election electron elephant empire end energy engine environment enzyme evening event exam example
experience eye fabric face factor factory faith family farm farmer fate father feast fence festival fever field
figure file film filter finger fire fish flag fleet flight flood floor flour flower foam fog folder foot force
forest fork form fort fox frame fridge friend frog frost fruit fuel fund future galaxy game gap garage garden garlic
gas gate gel gene giant gift glacier glass glove goal goat gold government grade grain grape grass groove ground
group growth guard guide guitar gym hair hall hammer hand harbor hat head health heart heat herb hero hill history
hole holiday home honey hook horn horse hose hospital host hotel hour house hunter ice idea image index industry
information ink interest iron island jacket jam jewel job journal journey joy judge juice keyboard king kitchen knee
knife knight knot knowledge ladder lake lamp land language lantern laptop laser law lawyer layer leader leaf leather
lecture lemon lens lesson lettuce level library life light lion lip liquid liver loan look loop loss luck lunch lung
magazine magnet mall map market mast match material mayor meal meat medal media meeting member memory menu metal
microscope midnight milk mind miner mineral mint mirror model molecule moment money monitor monkey monster month
monument moon morning mother motor mountain mouse mouth movement movie mud muscle museum music nail name nature navy
need needle neighbor nephew nerve net network news night node noise noon nose notch novel nurse nut ocean office
officer oil olive onion operation opportunity orange orbit order organization oven paint painter palace pan panel
paper parade park part party paste path patient pattern peach pearl pen pencil pepper performance period person
phone piano picture piece pig pillow pilot pipe place plan plane planet plant plastic plate player pocket poem poet
pole police policy pond pool population port position pot potato powder power practice president pressure price
pride priest prince prism prize problem product professor profit program project protein province pump quality queen
queue rabbit radar rain ramp ranch rate reason recipe record reef region relationship rent republic research
resource response rest result rice ridge ring risk river road rock rocket role roof room root rope rose router
rubber rule rust sail sailor salad salary salt sample sand satellite sauce saw scene school score screen screw
script season section seed senate series server service shape shark sheep shelf shield ship shirt shoe shop shore
shovel side signal silk silver singer site situation size skill sky sleep sleeve slope slot smoke snack snake snow
soap society sock soldier solid son song sound soup source space spear speech spice spider sponge spoon sport spring
square stack stadium staff stage stain stair stamp star state station statue steam steel step stock stone stool
store storm story stove stranger strategy stream street student study success sugar summer sun sunset surface swamp
sword syrup system table tablet tank tax tea teacher team tear technology telescope television temple tent term test
theater thought thread thumb ticket tide tiger tile time toe tomato tongue tooth torch tour towel tower town toy
track trade trail train training trash treatment treaty tree triangle tribe trip truck truth tunnel twin type uncle
union universe valley value valve vanilla vapor vein verse version view village violin vitamin volcano vote wage
wall watch water waterfall wave wedding week wheat wheel wind window wine winter wire witch wolf wood wool work
worker world wrist writer yard year yeast yogurt zoo
"""

NOUNS: tuple[str, ...] = tuple(_WORDS.split())
